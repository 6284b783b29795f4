// The page's words in three languages. English is the key; what comes from the cluster is never translated.
import { signal } from "@preact/signals";

export const LANGUAGES = { en: "English", ja: "日本語", zh: "中文" } as const;
type Language = keyof typeof LANGUAGES;

const JA: Record<string, string> = {
  Map: "マップ", Why: "理由", Queue: "キュー", Time: "時間", Compare: "比較", by: "分類", size: "大きさ", colour: "色",
  "no label": "ラベルなし", "all nodes": "すべてのノード", "verdict for the pod": "Pod への判定", use: "使用率", "search pod or node": "Pod・ノードを検索",
  "previous decision": "前の決定", "next decision": "次の決定", play: "再生", pause: "一時停止", begin: "最初", end: "最新", speed: "速さ",
  theme: "配色", language: "言語", scheduled: "配置済み", unschedulable: "配置不可", gated: "ゲート中", error: "エラー",
  active: "アクティブ", backoff: "バックオフ", permit: "Permit 待ち", "in flight": "処理中",
  "attempt {n}": "{n} 回目の試行", "no decision yet": "まだ決定はありません", "{n} nodes": "{n} ノード", "{n} pods": "{n} Pod",
  "best nodes": "上位のノード", total: "合計", "what would help": "解決につながる変更", notes: "補足", "can take it": "配置可能",
  "{n} nodes share the highest score; one of them was picked at random": "最高点のノードが {n} 個あり、その中から無作為に選ばれました",
  "decided again today, the answer is": "今もう一度決定すると", "would be evicted": "退避される Pod", "priority {n}": "優先度 {n}",
  "room can be made on {node}": "{node} に空きを作れます", "wakes on": "再試行のきっかけ", "since {s}": "{s} 前から", "due in {s}": "あと {s}", due: "まもなく",
  utilisation: "使用率", waiting: "待機中", decisions: "決定", evictions: "退避", fragmentation: "断片化", "cordoned": "スケジュール停止", "not there yet": "まだ存在しません",
  "pods on it": "このノードの Pod", requested: "要求", of: "/", live: "ライブ", "follow the head": "最新に追従", "the server does not answer; trying again": "サーバーが応答しません。再試行しています",
  "free CPU on nodes that the typical pod does not fit on": "標準的な Pod が入らないノードに残った CPU の割合",
  taints: "Taint", labels: "ラベル", close: "閉じる", filters: "フィルター", "only this filter": "このフィルターだけ", "loading…": "読み込み中…", "asking…": "問い合わせ中…",
  "show all": "すべて表示", "nothing waits": "待機中の Pod はありません", "{n} more": "ほか {n} 個", others: "その他", "by filter number, or score": "番号はフィルター、濃さはスコア",
  apply: "適用", delete: "削除", "applied: {names}": "適用しました: {names}", "what if": "もしも", "step by step": "一歩ずつ",
  next: "次へ", back: "戻る", "keyboard": "キーボード", "feasible": "配置可能", "zoom in": "拡大", "zoom out": "縮小", "fit": "全体", "score": "スコア",
  "the chosen node": "選ばれたノード", "every node refused it": "すべてのノードが拒否しました", "record": "記録", "time": "時刻", "download": "ダウンロード",
  "{pod} is the next pod in the queue. This is attempt {n}. {m} nodes are looked at.": "次にキューから取り出されるのは {pod} です。{n} 回目の試行で、{m} 個のノードを調べます。",
  "{plugin} refuses {n} nodes: {reasons}. {m} are left.": "{plugin} が {n} 個のノードを拒否します: {reasons}。残りは {m} 個です。",
  "Each score plugin gives points to the {n} nodes that are left. {node} has the most: {m}.": "残った {n} 個のノードに各スコアプラグインが点を付けます。最高は {node} の {m} 点です。",
  "{n} nodes have the same total. One of them is drawn at random.": "{n} 個のノードが同点です。その中から一つが無作為に選ばれます。",
  "{pod} is bound to {node}.": "{pod} は {node} にバインドされます。",
  "No node is left. {victims} must go from {node}, and {pod} waits for that.": "残ったノードはありません。{victims} が {node} から退避され、{pod} はそれを待ちます。",
  "No node is left. {pod} waits until something changes for {plugins}.": "残ったノードはありません。{pod} は {plugins} に関わる変化があるまで待ちます。",
  "Filter": "フィルター",
  "Score": "スコア", "Tie": "同点",
  "Bind": "バインド",
  "Preempt": "プリエンプション",
  "Wait": "待機",
  "more": "さらに学ぶ",
  "it is lost": "失われたら",
  "{node} is lost": "{node} が失われたら",
  "it is cordoned": "スケジュール停止したら",
  "{node} is cordoned": "{node} をスケジュール停止したら",
  "3 more like it": "同じものを 3 台追加したら",
  "3 more nodes like {node}": "{node} と同じノードを 3 台追加したら",
  "pods find a place": "個の Pod に行き先があります",
  "find none": "個にはありません",
  "have no controller: somebody has to make them anew": "個にはコントローラーがなく、誰かが作り直す必要があります",
  "budgets that break": "破られる PodDisruptionBudget",
  "a new node": "新しいノード",
  "{n} pods went elsewhere": "{n} 個の Pod の行き先が違います",
  "every pod went to the same node": "すべての Pod が同じノードに配置されました",
  "no pod was decided in both": "両方で決定された Pod はありません",
  "the first difference": "最初の違い",
  "this page carries no answer to that; ask the record itself: mooring ui": "このページには答えが含まれていません。記録に直接たずねてください: mooring ui",
  "no nodes yet": "ノードはまだありません", "nothing on the map changes": "マップに変化はありません",
  objects: "オブジェクト", configuration: "設定", stories: "ストーリー", change: "変更", save: "保存", check: "検査", ask: "試す", plugin: "プラグイン",
  "the scheduler goes on with it": "スケジューラーはこの設定で動作を続けます", "no mistakes found": "誤りは見つかりませんでした", "the one in force": "現在の設定",
  "played in a cluster of its own, in virtual time": "専用のクラスターで、仮想時間で再生します",
  "a trace for Perfetto": "Perfetto 用トレース", "this page, without a server": "このページ（サーバー不要）",
  "it is drained": "ドレインしたら", "{node} is drained": "{node} をドレインしたら", drained: "ドレイン", lost: "喪失", "gets pods": "Pod が増える", "pods leave": "Pod が減る", "{n} new nodes": "新しいノード {n} 台",
  "of {n} pods would be elsewhere, if all were placed anew": "/ {n} 個の Pod の行き先が変わります（すべて配置し直した場合）", "of {n} waiting pods would go elsewhere": "/ {n} 個の待機中の Pod の行き先が変わります",
  "this decision": "この決定", "has weight": "の重みが", "{plugin} has weight {n}": "{plugin} の重みが {n} なら", "{plugin} with weight {n}": "{plugin} の重みを {n} にする",
  "for another node to win": "別のノードが選ばれるには", "{node} lacks {n} points": "{node} はあと {n} 点必要", "previous extension point": "前の拡張ポイント", "next extension point": "次の拡張ポイント",
  course: "コース", "scenario": "シナリオ", "scheduler": "スケジューラー", "note": "解説", "kubectl": "kubectl",
};
const ZH: Record<string, string> = {
  Map: "地图", Why: "原因", Queue: "队列", Time: "时间", Compare: "比较", by: "分组", size: "大小", colour: "颜色",
  "no label": "无标签", "all nodes": "所有节点", "verdict for the pod": "对该 Pod 的判定", use: "使用率", "search pod or node": "搜索 Pod 或节点",
  "previous decision": "上一个决定", "next decision": "下一个决定", play: "播放", pause: "暂停", begin: "开头", end: "最新", speed: "速度",
  theme: "主题", language: "语言", scheduled: "已调度", unschedulable: "无法调度", gated: "被门控", error: "错误",
  active: "活动", backoff: "退避", permit: "等待 Permit", "in flight": "处理中",
  "attempt {n}": "第 {n} 次尝试", "no decision yet": "还没有决定", "{n} nodes": "{n} 个节点", "{n} pods": "{n} 个 Pod",
  "best nodes": "最佳节点", total: "总分", "what would help": "怎样改变才有帮助", notes: "说明", "can take it": "可以接受",
  "{n} nodes share the highest score; one of them was picked at random": "{n} 个节点并列最高分，从中随机选取一个",
  "decided again today, the answer is": "现在重新决定的结果是", "would be evicted": "将被驱逐的 Pod", "priority {n}": "优先级 {n}",
  "room can be made on {node}": "可以在 {node} 上腾出空间", "wakes on": "唤醒事件", "since {s}": "已 {s}", "due in {s}": "还有 {s}", due: "即将",
  utilisation: "使用率", waiting: "等待中", decisions: "决定", evictions: "驱逐", fragmentation: "碎片化", "cordoned": "停止调度", "not there yet": "尚不存在",
  "pods on it": "其上的 Pod", requested: "请求", of: "/", live: "实时", "follow the head": "跟随最新", "the server does not answer; trying again": "服务器没有响应，正在重试",
  "free CPU on nodes that the typical pod does not fit on": "典型 Pod 放不下的节点上剩余 CPU 的比例",
  taints: "污点", labels: "标签", close: "关闭", filters: "过滤器", "only this filter": "仅此过滤器", "loading…": "加载中…", "asking…": "查询中…",
  "show all": "全部显示", "nothing waits": "没有等待的 Pod", "{n} more": "另有 {n} 个", others: "其他", "by filter number, or score": "数字为过滤器，深浅为分数",
  apply: "应用", delete: "删除", "applied: {names}": "已应用：{names}", "what if": "假设", "step by step": "逐步",
  next: "下一步", back: "上一步", "keyboard": "键盘", "feasible": "可行", "zoom in": "放大", "zoom out": "缩小", "fit": "全部", "score": "分数",
  "the chosen node": "选中的节点", "every node refused it": "所有节点都拒绝了它", "record": "记录", "time": "时间", "download": "下载",
  "{pod} is the next pod in the queue. This is attempt {n}. {m} nodes are looked at.": "队列中的下一个 Pod 是 {pod}。这是第 {n} 次尝试，要检查 {m} 个节点。",
  "{plugin} refuses {n} nodes: {reasons}. {m} are left.": "{plugin} 拒绝了 {n} 个节点：{reasons}。还剩 {m} 个。",
  "Each score plugin gives points to the {n} nodes that are left. {node} has the most: {m}.": "各打分插件给剩下的 {n} 个节点打分。{node} 最高：{m} 分。",
  "{n} nodes have the same total. One of them is drawn at random.": "{n} 个节点总分相同，从中随机抽取一个。",
  "{pod} is bound to {node}.": "{pod} 被绑定到 {node}。",
  "No node is left. {victims} must go from {node}, and {pod} waits for that.": "没有剩下的节点。{victims} 必须离开 {node}，{pod} 等待其完成。",
  "No node is left. {pod} waits until something changes for {plugins}.": "没有剩下的节点。{pod} 等待与 {plugins} 有关的变化。",
  "Filter": "过滤",
  "Score": "打分", "Tie": "同分",
  "Bind": "绑定",
  "Preempt": "抢占",
  "Wait": "等待",
  "more": "进一步学习",
  "it is lost": "它失效了",
  "{node} is lost": "{node} 失效了",
  "it is cordoned": "它被停止调度",
  "{node} is cordoned": "{node} 被停止调度",
  "3 more like it": "再加 3 个同样的",
  "3 more nodes like {node}": "再加 3 个与 {node} 相同的节点",
  "pods find a place": "个 Pod 找到位置",
  "find none": "个找不到",
  "have no controller: somebody has to make them anew": "个没有控制器：需要有人重新创建",
  "budgets that break": "被破坏的 PodDisruptionBudget",
  "a new node": "新节点",
  "{n} pods went elsewhere": "{n} 个 Pod 去了别处",
  "every pod went to the same node": "每个 Pod 都去了同一个节点",
  "no pod was decided in both": "没有在两者中都做过决定的 Pod",
  "the first difference": "第一处不同",
  "this page carries no answer to that; ask the record itself: mooring ui": "此页面不含该答案，请直接查询记录：mooring ui",
  "no nodes yet": "还没有节点", "nothing on the map changes": "地图上没有变化",
  objects: "对象", configuration: "配置", stories: "故事", change: "更改", save: "保存", check: "检查", ask: "试一试", plugin: "插件",
  "the scheduler goes on with it": "调度器已改用此配置", "no mistakes found": "没有发现错误", "the one in force": "当前配置",
  "played in a cluster of its own, in virtual time": "在独立的集群中以虚拟时间播放",
  "a trace for Perfetto": "Perfetto 跟踪文件", "this page, without a server": "此页面（无需服务器）",
  "it is drained": "它被排空", "{node} is drained": "{node} 被排空", drained: "排空", lost: "失效", "gets pods": "得到 Pod", "pods leave": "Pod 离开", "{n} new nodes": "{n} 个新节点",
  "of {n} pods would be elsewhere, if all were placed anew": "/ {n} 个 Pod 会在别处（若全部重新放置）", "of {n} waiting pods would go elsewhere": "/ {n} 个等待中的 Pod 会去别处",
  "this decision": "这个决定", "has weight": "权重为", "{plugin} has weight {n}": "{plugin} 的权重为 {n}", "{plugin} with weight {n}": "把 {plugin} 的权重设为 {n}",
  "for another node to win": "要让别的节点胜出", "{node} lacks {n} points": "{node} 还差 {n} 分", "previous extension point": "上一个扩展点", "next extension point": "下一个扩展点",
  course: "课程", "scenario": "场景", "scheduler": "调度器", "note": "说明", "kubectl": "kubectl",
};
const TABLES: Record<Language, Record<string, string>> = { en: {}, ja: JA, zh: ZH };

function preferred(): Language {
  const found = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each in LANGUAGES);
  return (found as Language) ?? "en";
}

export const language = signal<Language>(preferred());

/** A text in the page's language, with names in braces filled in. */
export function say(text: string, values: Record<string, string | number> = {}): string {
  let found = TABLES[language.value][text] ?? text;
  for (const [name, value] of Object.entries(values)) found = found.replace(`{${name}}`, String(value));
  if (language.value === "en") found = found.replace(/^1 (node|pod|new node)s\b/, "1 $1");
  return found;
}

export function count(value: number): string {
  return value.toLocaleString(language.value);
}

/** An amount of a resource as people write it. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu") return value % 1000 === 0 ? count(value / 1000) : value < 1000 ? `${Math.round(value)}m` : (value / 1000).toFixed(1);
  if (resource !== "memory" && !resource.includes("storage") && !resource.startsWith("hugepages")) return count(value);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let i = 0;
  while (Math.abs(value) >= 1024 && i < units.length - 1) { value /= 1024; i++; }
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}${units[i]}`;
}

export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

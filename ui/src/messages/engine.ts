// What the engine suggests and notes, in English as it says it, in Japanese and in Chinese. The first that fits counts.

/** Templates by name: what is in braces is taken from the engine's sentence. */
export const SENTENCES: Record<string, readonly [en: string, ja: string, zh: string]> = {
  less: [
    "{amount} less {resource} ({target} instead of {now})",
    "{resource} の要求を {amount} 減らす（{now} ではなく {target}）",
    "{resource} 请求减少 {amount}（{target}，而不是 {now}）",
  ],
  noRequest: [
    "no {resource} request ({now} now)",
    "{resource} を要求しない（現在 {now}）",
    "不请求 {resource}（现在为 {now}）",
  ],
  withoutPod: ["without pod {pod} on {node}", "{node} から Pod {pod} を取り除く", "移除 {node} 上的 Pod {pod}"],
  onePodFewer: [
    "one pod fewer on {node} (pods: {count} of {allowed})",
    "{node} の Pod を 1 個減らす（Pod 数 {count} / {allowed}）",
    "{node} 上少一个 Pod（Pod 数 {count} / {allowed}）",
  ],
  podsFewer: [
    "{n} pods fewer on {node} (pods: {count} of {allowed})",
    "{node} の Pod を {n} 個減らす（Pod 数 {count} / {allowed}）",
    "{node} 上少 {n} 个 Pod（Pod 数 {count} / {allowed}）",
  ],
  priorityAndPolicy: [
    "priority {level} and preemptionPolicy PreemptLowerPriority",
    "優先度 {level} と preemptionPolicy PreemptLowerPriority",
    "优先级 {level} 以及 preemptionPolicy PreemptLowerPriority",
  ],
  priority: ["priority {level}", "優先度 {level}", "优先级 {level}"],
  gates: ["remove scheduling gates {gates}", "スケジューリングゲート {gates} を外す", "移除调度门控 {gates}"],
  gate: ["remove scheduling gate {gates}", "スケジューリングゲート {gates} を外す", "移除调度门控 {gates}"],
  soften: [
    "spread over {key} only where possible (ScheduleAnyway)",
    "{key} での分散は可能な場合だけにする（ScheduleAnyway）",
    "仅在可能时按 {key} 分散（ScheduleAnyway）",
  ],
  maxSkew: [
    "spread over {key}: allow maxSkew {skew} (now {now})",
    "{key} での分散: maxSkew {skew} を許す（現在 {now}）",
    "按 {key} 分散：允许 maxSkew 为 {skew}（现在为 {now}）",
  ],
  objectors: [
    "without {pods}, whose anti-affinity keeps this pod away from {node}",
    "{pods} を取り除く（その anti-affinity がこの Pod を {node} から遠ざけている）",
    "移除 {pods}（其反亲和性使此 Pod 不能进入 {node}）",
  ],
  antiAffinity: [
    "without the required anti-affinity term on {key} ({selector})",
    "{key} についての必須の anti-affinity（{selector}）をやめる",
    "去掉 {key} 上必需的反亲和性（{selector}）",
  ],
  affinity: [
    "without the required affinity term on {key} ({selector})",
    "{key} についての必須の affinity（{selector}）をやめる",
    "去掉 {key} 上必需的亲和性（{selector}）",
  ],
  uncordon: ["uncordon {node}", "{node} のスケジュール停止を解除する", "解除 {node} 的禁止调度"],
  hostPort: ["remove host port {port}", "ホストポート {port} をやめる", "去掉主机端口 {port}"],
  recover: ["{node} no longer {what}", "{node} の状態 {what} が解消する", "{node} 不再处于 {what} 状态"],
  tolerate: ["tolerate {taint}", "Taint {taint} を許容する", "容忍污点 {taint}"],
  label: ["label {label} on {node}", "{node} にラベル {label} を付ける", "给 {node} 加上标签 {label}"],
  nodeSelector: ["without nodeSelector {label}", "nodeSelector {label} をやめる", "去掉 nodeSelector {label}"],
  nodeAffinity: [
    "without the required node affinity ({terms})",
    "必須の node affinity（{terms}）をやめる",
    "去掉必需的节点亲和性（{terms}）",
  ],
  withoutVolumeOf: [
    "without volume {volume} (claim {claim}, volume {name})",
    "ボリューム {volume}（PVC {claim}、PV {name}）をやめる",
    "去掉卷 {volume}（PVC {claim}，PV {name}）",
  ],
  createClaim: [
    "create persistentvolumeclaim {claim} of volume {volume}: without it the pod fits",
    "ボリューム {volume} の PersistentVolumeClaim {claim} を作る（これがなければ Pod は入る）",
    "创建卷 {volume} 的 PersistentVolumeClaim {claim}（没有它时 Pod 可以放下）",
  ],
  bindClaim: [
    "bind persistentvolumeclaim {claim} of volume {volume}: without it the pod fits",
    "ボリューム {volume} の PersistentVolumeClaim {claim} をバインドする（これがなければ Pod は入る）",
    "绑定卷 {volume} 的 PersistentVolumeClaim {claim}（没有它时 Pod 可以放下）",
  ],
  withoutVolume: ["without volume {volume}", "ボリューム {volume} をやめる", "去掉卷 {volume}"],
  withoutResourceClaim: [
    "without resource claim {claim}",
    "ResourceClaim {claim} をやめる",
    "去掉 ResourceClaim {claim}",
  ],
  deallocateOn: [
    "deallocate claim {claim} on {node}",
    "{node} で ResourceClaim {claim} の割り当てを解除する",
    "在 {node} 上释放 ResourceClaim {claim}",
  ],
  deallocate: ["deallocate claim {claim}", "ResourceClaim {claim} の割り当てを解除する", "释放 ResourceClaim {claim}"],
  shortfall: [
    "{resource}: {asked} asked for, at most {free} free (on {node})",
    "{resource}: 要求 {asked}、空きは最大 {free}（{node}）",
    "{resource}：请求 {asked}，最多空闲 {free}（在 {node} 上）",
  ],
  noneAtAll: [
    "no {resource} at all on {nodes} nodes",
    "{nodes} 個のノードには {resource} がまったくない",
    "{nodes} 个节点上完全没有 {resource}",
  ],
  noneOnOne: [
    "no {resource} at all on 1 node",
    "1 個のノードには {resource} がまったくない",
    "1 个节点上完全没有 {resource}",
  ],
  noPodHas: ["no pod has {selector}", "{selector} を持つ Pod はない", "没有 Pod 具有 {selector}"],
  onlyInNamespace: [
    "pods with {selector} are only in the namespace {namespaces}",
    "{selector} を持つ Pod は名前空間 {namespaces} にしかない",
    "具有 {selector} 的 Pod 只在名字空间 {namespaces} 中",
  ],
  claimLost: [
    "claim {claim} is bound to volume {volume}, which does not exist",
    "PVC {claim} がバインドされた PV {volume} は存在しない",
    "PVC {claim} 绑定的 PV {volume} 不存在",
  ],
  claimMissing: ["claim {claim} does not exist", "PVC {claim} は存在しない", "PVC {claim} 不存在"],
  claimUnboundOf: [
    "claim {claim} is not bound yet (storage class {kind})",
    "PVC {claim} はまだバインドされていない（StorageClass {kind}）",
    "PVC {claim} 尚未绑定（StorageClass {kind}）",
  ],
  claimUnbound: ["claim {claim} is not bound yet", "PVC {claim} はまだバインドされていない", "PVC {claim} 尚未绑定"],
  claimReachable: [
    "claim {claim} is bound to volume {volume}, reachable from nodes with {labels}",
    "PVC {claim} は PV {volume} にバインドされ、{labels} のノードから使える",
    "PVC {claim} 已绑定到 PV {volume}，可从带 {labels} 的节点访问",
  ],
  claimBound: [
    "claim {claim} is bound to volume {volume}",
    "PVC {claim} は PV {volume} にバインドされている",
    "PVC {claim} 已绑定到 PV {volume}",
  ],
};

/** The titles of the stories that come with mooring. */
export const TITLES: readonly (readonly [en: string, ja: string, zh: string])[] = [
  [
    "Nine nodes that take no pods, a pod that waits, and a tenth node.",
    "Pod を受け付けない 9 個のノード、待機する Pod、そして 10 個目のノード。",
    "九个不接收 Pod 的节点、一个等待的 Pod，以及第十个节点。",
  ],
  [
    "A cache looks for fast disks, a web server for its cache, and two caches avoid each other",
    "キャッシュは速いディスクを、Web サーバーはキャッシュを探し、二つのキャッシュは互いを避ける",
    "缓存寻找快速磁盘，Web 服务器寻找缓存，两个缓存互相避开",
  ],
  [
    "Two pods want a device each and only one is left: the second waits until the first releases it.",
    "二つの Pod がデバイスを一つずつ求めるが、残りは一つ。二つ目は一つ目が手放すまで待つ。",
    "两个 Pod 各要一个设备，而只剩一个：第二个等待第一个释放。",
  ],
  [
    "An extender is asked beside the plugins: it refuses one node and prefers another.",
    "プラグインに加えてエクステンダーにも尋ねる。一つのノードを拒否し、別のノードを優先する。",
    "除插件外还询问扩展程序：它拒绝一个节点并偏好另一个。",
  ],
  [
    "Three workers are of use only together: they hold their nodes until the last one has found its own.",
    "三つのワーカーは揃わなければ役に立たない。最後の一つが見つかるまでノードを確保しておく。",
    "三个工作进程必须一起运行：它们保留各自的节点，直到最后一个也找到节点。",
  ],
  [
    "A plugin wants nodes labelled cpu=true; the pod waits until one of them is.",
    "プラグインは cpu=true のラベルを持つノードを求める。そのようなノードが現れるまで Pod は待つ。",
    "插件要求节点带有 cpu=true 标签；Pod 等到有这样的节点为止。",
  ],
  [
    "A node falls silent; five minutes later its pods are replaced elsewhere.",
    "ノードが応答しなくなり、5 分後にその Pod は別の場所で作り直される。",
    "一个节点失去响应；五分钟后它的 Pod 在别处重建。",
  ],
  [
    "A permit plugin lets every pod wait as many seconds as its node's number says.",
    "Permit プラグインは、ノードの番号と同じ秒数だけ各 Pod を待たせる。",
    "Permit 插件让每个 Pod 等待与其节点编号相同的秒数。",
  ],
  [
    "Four workers are one pod group: all of them start, or none, and when they have to go, they go together.",
    "四つのワーカーは一つの Pod グループ。始まるときも終わるときも全員一緒。",
    "四个工作进程组成一个 Pod 组：要么全部启动，要么都不启动；离开时也一起离开。",
  ],
  [
    "The cluster is full when something important comes",
    "重要な Pod が来たとき、クラスターは満杯",
    "重要的 Pod 到来时集群已满",
  ],
  [
    "Two nodes fill up, and a large pod waits for room",
    "二つのノードが埋まり、大きな Pod が空きを待つ",
    "两个节点逐渐填满，一个大 Pod 等待空间",
  ],
  [
    "A reserved node keeps strangers out, and a node under repair sends its pods away",
    "予約されたノードは他の Pod を入れず、修理中のノードは Pod を退避させる",
    "预留节点拒绝其他 Pod，维修中的节点驱逐其 Pod",
  ],
  [
    "A claim waits for its first consumer, and the volume is made where the pod goes; a local disk decides the other way.",
    "PVC は最初の利用者を待ち、ボリュームは Pod の行き先に作られる。ローカルディスクはその逆を決める。",
    "PVC 等待第一个使用者，卷建在 Pod 所到之处；本地磁盘则反过来决定。",
  ],
  [
    "Six replicas are spread over three zones, and a seventh waits when a zone has no room left.",
    "六つのレプリカを三つのゾーンに分散する。一つのゾーンに空きがなくなると七つ目は待つ。",
    "六个副本分散到三个可用区；当一个可用区没有空间时，第七个等待。",
  ],
];

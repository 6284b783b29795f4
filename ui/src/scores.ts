// Scores as differences from the winner: what is the same for all nodes decides nothing, and is told once.
import type { Why } from "./view";

export interface ScoreRow {
  node: number;
  isWinner: boolean;
  total: number; // of the winner; of others, how far they are from it
  shares: number[]; // of each plugin in ``plugins``, likewise
}
export interface Differences {
  plugins: string[]; // whose points differ among these nodes
  constants: [string, number][]; // the others
  rows: ScoreRow[];
}

export function differences(told: Why): Differences {
  const [first] = told.best;
  const winner = told.best.find((each) => each.node === told.node) ?? first;
  const differs = told.plugins.map((_, i) => told.best.some((each) => each.shares[i] !== first.shares[i]));
  const kept = told.plugins.map((_, i) => i).filter((i) => differs[i]);
  return {
    plugins: kept.map((i) => told.plugins[i]),
    constants: told.plugins
      .map((name, i): [string, number] => [name, first.shares[i]])
      .filter(([, value], i) => !differs[i] && value !== 0),
    rows: told.best.map((each) => {
      const isWinner = each === winner;
      return {
        node: each.node,
        isWinner,
        total: isWinner ? each.total : each.total - winner.total,
        shares: kept.map((i) => (isWinner ? each.shares[i] : each.shares[i] - winner.shares[i])),
      };
    }),
  };
}

// One graph of the report, joined: nodes know their edges and their region, edges why they are fused or not.
'use strict';

const REASONS = {
  OpaqueProducer: {hue: 215, says: 'The value comes from an operator that runs with PyTorch.'},
  OpaqueConsumer: {hue: 215, says: 'The reader is an operator that runs with PyTorch.'},
  LibraryIsFaster: {hue: 190, says: "The product stays with PyTorch's library, which the cost model predicts to be faster."},
  WouldCycle: {hue: 22, says: 'The region would need a result that itself needs the region first.'},
  NotSchedulable: {hue: 320, says: 'No loop nest computes both: the sentence says which part has none.'},
  NoGain: {hue: 48, says: 'Fused, the two are predicted to be no faster than apart.'},
  RegionTooLarge: {hue: 265, says: 'The region would hold more nodes than the limit.'},
  FuseLimitReached: {hue: 265, says: 'The option fuse_limit stopped the merging.'},
  Refused: {hue: 0, says: 'The full solver refused the region after it was formed.'},
};

const NODE = {height: 36, smallest: 62, widest: 190, letter: 7.1, padding: 20};

// "softmax" of "aten._softmax.default", "addmm" of "aten::addmm"
function wordOf(operator) {
  const parts = operator.split(/::|\./).filter((part) => part !== '');
  return parts.length > 1 ? parts[1].replace(/^_+/, '') : operator;
}

class GraphModel {
  constructor(report) {
    this.report = report;
    this.regions = report.regions.map((region, index) => ({...region, index, launches: [], hue: (index * 137.508 + 150) % 360}));
    this.launches = report.graph.launches;
    this.launches.forEach((region, launch) => this.regions[region].launches.push(launch));
    this.nodes = report.graph.nodes.map((node, index) => this.#node(node, index));
    this.edges = report.graph.edges.map((edge, index) => ({...edge, index}));
    const reasons = new Map(report.unfused_edges.map((edge) => [JSON.stringify([edge.value, edge.consumer]), edge]));
    for (const edge of this.edges) {
      const from = this.nodes[edge.from], to = this.nodes[edge.to];
      from.readBy.push(edge);
      to.reads.push(edge);
      edge.refusal = reasons.get(JSON.stringify([edge.value, to.name])) ?? null;
      if (from.kind === 'input' || from.kind === 'parameter') edge.kind = 'input';
      else edge.kind = edge.refusal === null && from.launch !== null && from.launch === to.launch ? 'inside' : 'unfused';
    }
  }

  #node(node, index) {
    const region = node.launch === null ? null : this.regions[this.launches[node.launch]];
    const isInput = node.kind === 'input' || node.kind === 'parameter';
    const label = isInput ? node.name : wordOf(node.op);
    const below = isInput ? node.type : node.name;
    const wanted = NODE.letter * Math.max(label.length, 0.86 * below.length) + NODE.padding;
    return {...node, index, region, isInput, label, below, reads: [], readBy: [], height: NODE.height,
            width: Math.min(NODE.widest, Math.max(NODE.smallest, wanted))};
  }

  // Predicted times and bytes moved of all launches, before (each operator as a region) and after. Calls count in neither.
  totals() {
    const sum = (of) => this.regions.reduce((total, region) => total + region.launches.length * of(region), 0);
    return {
      apartUs: sum((r) => r.apart_us), fusedUs: sum((r) => r.predicted_us),
      bytesBefore: sum((r) => r.bytes + r.bytes_saved), bytesAfter: sum((r) => r.bytes),
    };
  }

  reasonCounts() {
    const counts = new Map();
    for (const edge of this.report.unfused_edges) counts.set(edge.reason, (counts.get(edge.reason) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  }

  search(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== '');
    if (wanted.length === 0) return [];
    const text = (node) => `${node.name} ${node.op} ${node.origin} ${node.source} ${node.region?.name ?? ''}`.toLowerCase();
    return this.nodes.filter((node) => wanted.every((word) => text(node).includes(word)));
  }
}

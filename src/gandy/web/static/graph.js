// Draws who waits for whom: the layout is dagre's, the drawing is plain SVG.
(function () {
  "use strict";
  const space = "http://www.w3.org/2000/svg";
  function make(name, attributes, text) {
    const element = document.createElementNS(space, name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    if (text !== undefined) element.textContent = text;
    return element;
  }
  function shorten(text, length) {
    return text.length > length ? text.slice(0, length - 1) + "…" : text;
  }
  function layOut(data) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 56, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    data.nodes.forEach((node) => {
      const length = Math.max(shorten(node.name, 30).length * 8.1, shorten(node.train, 34).length * 7.2);
      graph.setNode(node.name, { width: Math.max(90, length + 26), height: 46 });
    });
    data.edges.forEach((edge) => {
      const size = edge.label ? { width: edge.label.length * 6.4, height: 16 } : {};
      graph.setEdge(edge.from, edge.to, { kind: edge.kind, label: edge.label, labelpos: "c", ...size });
    });
    dagre.layout(graph);
    return graph;
  }
  function draw(element) {
    const data = JSON.parse(element.dataset.graph);
    const graph = layOut(data);
    const size = graph.graph();
    const svg = make("svg", { width: size.width, height: size.height, viewBox: "0 0 " + size.width + " " + size.height, role: "group", "aria-label": "Which manifests wait for which" });
    const marker = make("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    marker.append(make("path", { d: "M0 0 L8 4 L0 8 z" }));
    svg.append(marker);
    graph.edges().forEach((each) => {
      const edge = graph.edge(each);
      const path = edge.points.map((point, index) => (index ? "L" : "M") + point.x + " " + point.y).join(" ");
      svg.append(make("path", { d: path, class: "edge is-" + edge.kind, "marker-end": "url(#tip)" }));
      if (edge.label) svg.append(make("text", { x: edge.x, y: edge.y - 5, class: "label", "text-anchor": "middle" }, edge.label));
    });
    data.nodes.forEach((node) => {
      const place = graph.node(node.name);
      const link = make("a", { href: node.href, class: "node " + node.kind });
      const x = place.x - place.width / 2;
      const y = place.y - place.height / 2;
      link.append(make("title", {}, node.name + " (" + node.train + ")" + (node.said ? ": " + node.said : "")));
      link.append(make("rect", { x, y, width: place.width, height: place.height, rx: 8 }));
      link.append(make("text", { x: x + 12, y: y + 20 }, shorten(node.name, 30)));
      link.append(make("text", { x: x + 12, y: y + 36, class: "train" }, shorten(node.train, 34)));
      svg.append(link);
    });
    element.replaceChildren(svg);
  }
  document.querySelectorAll("[data-graph]").forEach(draw);
})();

// The charts of a class: uPlot on what /charts/class tells, read again while the page is seen.
(() => {
  'use strict';
  if (!window.uPlot) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const round = (v) => v >= 100 ? Math.round(v).toLocaleString('en') : v >= 10 ? v.toFixed(1) : v.toFixed(2).replace(/\.?0+$/, '');
  const perSecond = (v) => v == null ? '–' : round(v) + '/s';
  const count = (v) => v == null ? '–' : Math.round(v).toLocaleString('en');
  const duration = (v) => v == null ? '–' : v < 1 ? round(v * 1000) + 'ms' : v < 120 ? round(v) + 's' : (v < 600 ? (v / 60).toFixed(1).replace('.0', '') : Math.round(v / 60)) + 'm';

  // Each chart: its lines, where their data is, and how a value is written.
  const kinds = {
    flow: { value: perSecond, lines: [['in', 'in', '--good'], ['out', 'out', '--water-deep'], ['rejected', 'rejected', '--bad', [2, 3]], ['rate of all buckets', 'possible', '--quiet', [6, 4]]] },
    level: { value: count, lines: [['waiting', 'level', '--water-deep', null, true], ['dead', 'dead', '--bad', [2, 3]]] },
    wait: { value: duration, lines: [['p50', 'wait50', '--water-deep'], ['p99', 'wait99', '--warn', [4, 3]]] },
    late: { value: duration, lines: [['p50', 'late50', '--water-deep'], ['p99', 'late99', '--warn', [4, 3]]] },
  };
  const charts = new WeakMap(); // by the element that they are in: it is another one when the page was drawn anew

  // newest shows the last values in the legend while nobody points at a moment.
  const newest = (u) => { if (u.cursor.idx == null) u.setLegend({ idx: u.data[0].length - 1 }, false); };

  const columns = (kind, data) => [data.at, ...kind.lines.map(([, name]) => data[name])];

  // The rate of all buckets is drawn only where it does not press what happens to the floor.
  function ranged(kind, data) {
    if (kind !== kinds.flow) return data;
    const most = Math.max(0, ...data.in, ...data.out, ...data.rejected);
    return { ...data, possible: data.possible.map((v) => v != null && v <= most * 4 ? v : null) };
  }

  function make(element, kind, data) {
    const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 } };
    const series = [{ label: 'at', value: (u, v) => v == null ? '–' : new Date(v * 1000).toLocaleTimeString('en-GB') }];
    for (const [label, , name, dash, filled] of kind.lines) {
      series.push({ label, stroke: colour(name), width: 1.6, dash: dash || undefined, fill: filled ? colour(name) + '33' : undefined, value: (u, v) => kind.value(v), points: { show: false } });
    }
    return new uPlot({
      width: element.clientWidth, height: 170, series,
      axes: [{ ...axis, values: (u, at) => at.map((v) => new Date(v * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })) }, { ...axis, size: 62, values: (u, values) => values.map(kind.value) }],
      scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      hooks: { setCursor: [newest], ready: [newest], setData: [newest] },
      cursor: { sync: { key: 'class' }, drag: { x: false, y: false } },
    }, columns(kind, data), element);
  }

  async function read() {
    const root = document.getElementById('charts');
    if (document.hidden || !root) return;
    try {
      const answer = await fetch(root.dataset.url, { headers: { Accept: 'application/json' } });
      if (!answer.ok) return;
      const all = await answer.json();
      for (const element of root.querySelectorAll('[data-chart]')) {
        const name = element.dataset.chart;
        const data = ranged(kinds[name], all);
        if (charts.has(element)) charts.get(element).setData(columns(kinds[name], data));
        else charts.set(element, make(element, kinds[name], data));
      }
    } catch { /* the stream says that the admin is away */ }
  }
  async function again() {
    await read();
    const root = document.getElementById('charts');
    setTimeout(again, Number(root ? root.dataset.every : 5) * 1000);
  }
  again();
  document.addEventListener('visibilitychange', read); // of 24 hours the next look may be a minute away
  document.addEventListener('htmx:after:swap', () => {
    const first = document.querySelector('[data-chart]');
    if (first && !charts.has(first)) read();
  });
  addEventListener('resize', () => {
    for (const element of document.querySelectorAll('[data-chart]')) {
      const chart = charts.get(element);
      if (chart) chart.setSize({ width: element.clientWidth, height: 170 });
    }
  });
})();

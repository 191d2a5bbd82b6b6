// What the form does besides being sent: "Submit again" waits for its time, and the page follows the job that it submitted.
(() => {
  'use strict';
  function wait() {
    for (const button of document.querySelectorAll('button[data-after]')) button.disabled = Date.parse(button.dataset.after) > spoutNow();
  }
  wait();
  setInterval(wait, 250);
  document.addEventListener('htmx:after:swap', (event) => {
    wait();
    // htmx keeps no history here. Parts are fetched from the address of the page, so that has to name the job.
    const here = event.detail.ctx?.hx?.replaceurl;
    if (here) history.replaceState(null, '', here);
    if (event.detail.ctx?.target?.id === 'main') document.getElementById('answer').scrollIntoView({ block: 'nearest' });
  });
})();

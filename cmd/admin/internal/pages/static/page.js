// What pages do besides being live: boxes that tick others, questions in a dialog, buttons that copy, and what went wrong.
(() => {
  'use strict';
  // A box that ticks all others of its form, by their name.
  document.addEventListener('change', (event) => {
    const name = event.target.dataset.ticks;
    if (name) for (const box of event.target.form.querySelectorAll('[name="' + name + '"]')) box.checked = event.target.checked;
  });

  // Dialogs: an element with data-dialog="url" opens what the server answers; data-close in it closes it.
  const dialog = document.getElementById('dialog');
  async function ask(url) {
    dialog.replaceChildren(); // the last question may have been another one
    let text;
    try {
      const answer = await fetch(url, { headers: { 'HX-Request': 'true', Accept: 'text/html' } });
      const login = answer.headers.get('HX-Redirect');
      if (login) return location.assign(login);
      text = await answer.text();
      if (!answer.ok) return fail(new DOMParser().parseFromString(text, 'text/html').body.textContent.trim());
    } catch {
      return fail('The admin does not answer. Nothing was done.');
    }
    dialog.innerHTML = text;
    htmx.process(dialog);
    if (!dialog.open) dialog.showModal();
    dialog.focus(); // on no button: a key that is held since it opened this must not answer it
  }

  document.addEventListener('click', async (event) => {
    const opener = event.target.closest('[data-dialog]');
    if (opener && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      return ask(opener.dataset.dialog);
    }
    if (event.target.closest('[data-close]') && dialog.open) {
      event.preventDefault(); // what is behind it is where the link leads, with what somebody typed there
      return dialog.close();
    }
    const copy = event.target.closest('[data-copy]');
    if (copy) {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
      copy.dataset.copied = '';
      setTimeout(() => delete copy.dataset.copied, 1500);
    }
  });

  // What went wrong is told above the page, which stays as it is, with all that was typed, until something else is tried.
  const notices = document.getElementById('notices');
  const forget = () => notices.querySelector('#failure')?.remove();
  function fail(text) {
    forget();
    const notice = document.createElement('p');
    Object.assign(notice, { id: 'failure', className: 'notice bad', textContent: text });
    notice.setAttribute('role', 'alert');
    notices.append(notice);
    notice.scrollIntoView({ block: 'nearest' });
  }
  document.addEventListener('htmx:before:request', forget);
  document.addEventListener('htmx:error', (event) => {
    if (event.detail.ctx?.request && !event.detail.ctx.response) fail('The admin does not answer. It is not known whether that was done: look before you try again.');
  });
  document.addEventListener('htmx:after:swap', () => notices.querySelector('#failure')?.scrollIntoView({ block: 'nearest' }));
})();

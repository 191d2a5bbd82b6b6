// The number beside a slider, while it is moved.
document.addEventListener('input', (event) => {
  const output = document.querySelector(`output[data-of="${CSS.escape(event.target.id)}"]`);
  if (output) output.textContent = event.target.value;
});

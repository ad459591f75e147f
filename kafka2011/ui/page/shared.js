// What every view uses: having the page drawn again, and questions to the server.

let drawing = () => {}, isAsked = false;

// Say what draws the page.
export function drawBy(draw) {
  drawing = draw;
}

export function show() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => { isAsked = false; drawing(); });
}

export async function ask(name, query) {
  try {
    const response = await fetch(`/api/${name}?${new URLSearchParams(query)}`);
    return await response.json();
  } catch {
    return { error: "the server does not answer" };
  }
}

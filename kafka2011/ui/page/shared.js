// What every view uses: having the page drawn again, and questions to the server.

let drawing = () => {},
  isAsked = false;

// Say what draws the page.
export function drawBy(draw) {
  drawing = draw;
}

export function show() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    drawing();
  });
}

export async function ask(name, query) {
  try {
    const response = await fetch(`/api/${name}?${new URLSearchParams(query)}`);
    return await response.json();
  } catch {
    return { error: "the server does not answer" };
  }
}

// Has the server change something, or say what it would; only this page may.
export async function tell(name, body) {
  try {
    const response = await fetch(`/api/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return await response.json();
  } catch {
    return { error: "The server does not answer: look whether it was done." };
  }
}

package dashboard

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser drives one page of a headless Chromium by its devtools protocol over a pair of pipes.
type browser struct {
	t       *testing.T
	in      *os.File
	session string

	mu      sync.Mutex // guards all below
	last    int
	replies map[int]chan reply
	// broken is closed when the browser has ended.
	broken chan struct{}
	// logged are the errors that the page reported.
	logged []string
}

type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// browserPatience bounds one command and one wait. Nothing is measured by it.
const browserPatience = 60 * time.Second

// newBrowser starts the browser that CADRE_BROWSER names, with one blank page.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("CADRE_BROWSER")
	if program == "" {
		t.Skip("CADRE_BROWSER names no headless Chromium; `make test-dashboard` does")
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The browser's helpers may still write when it has ended, so the test's own folder would be in the way of them.
	profile, err := os.MkdirTemp("", "cadre-dashboard-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{childIn, childOut} // descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{childIn, childOut} {
		_ = f.Close() // the child has its own
	}
	b := &browser{t: t, in: in, replies: map[int]chan reply{}, broken: make(chan struct{})}
	go b.listen(out)
	t.Cleanup(func() {
		_ = in.Close() // the browser ends at the end of its pipe
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its helpers
		_ = out.Close()
	})
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		b.call(domain, nil, nil)
	}
	return b
}

// listen hands out replies, and keeps the errors of the page.
func (b *browser) listen(out *os.File) {
	defer close(b.broken)
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			reply
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.replies[m.ID]; c != nil {
			delete(b.replies, m.ID)
			c <- m.reply
		}
		// An error page is an entry of the network.
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" && !bytes.Contains(m.Params, []byte(`"source":"network"`)) {
			b.logged = append(b.logged, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call makes one command and decodes its result.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	if err := b.try(method, params, into); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *browser) try(method string, params, into any) error {
	b.mu.Lock()
	b.last++
	id, c := b.last, make(chan reply, 1)
	b.replies[id] = c
	b.mu.Unlock()
	command := map[string]any{"id": id, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case r := <-c:
		if r.Error != nil {
			return errors.New(r.Error.Message)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(r.Result, into)
	case <-b.broken:
		return errors.New("the browser has ended")
	case <-time.After(browserPatience):
		return errors.New("no answer")
	}
}

// eval evaluates an expression in the page; a promise is awaited.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	v, err := b.tryEval(expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *browser) tryEval(expression string) (any, error) {
	var out struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	err := b.try("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if err == nil && out.ExceptionDetails != nil {
		err = errors.New(string(out.ExceptionDetails))
	}
	return out.Result.Value, err
}

// await waits until an expression is true in the page. A navigation ends an evaluation, which then begins again.
func (b *browser) await(expression string) {
	b.t.Helper()
	last := error(nil)
	for end := time.Now().Add(browserPatience); time.Now().Before(end); {
		v, err := b.tryEval(`new Promise(done => { let n = 0; const look = () => (` + expression + `) ? done(true) : n++ > 40 ? done(false) : setTimeout(look, 25); look(); })`)
		if err == nil && v == true {
			return
		}
		last = err
	}
	text, _ := b.tryEval("document.body.innerText")
	b.t.Fatalf("never true: %s (%v)\n%v\n%v", expression, last, text, b.logged)
}

// open loads an address and waits until its script runs.
func (b *browser) open(address string) {
	b.t.Helper()
	var went struct {
		ErrorText string `json:"errorText"`
	}
	b.call("Page.navigate", map[string]any{"url": address}, &went)
	if went.ErrorText != "" {
		b.t.Fatalf("open %s: %s", address, went.ErrorText)
	}
	b.await(`document.readyState === "complete"`)
}

// key presses a key with a name such as "Tab", or a character.
func (b *browser) key(key string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	switch key {
	case "Tab":
		down["code"], down["windowsVirtualKeyCode"] = "Tab", 9
	case "Enter":
		down["code"], down["windowsVirtualKeyCode"], down["text"] = "Enter", 13, "\r"
	default:
		down["text"] = key
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// look sets the size of the window, and the colours: "light" or "dark".
func (b *browser) look(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// shoot returns a picture of the window as PNG.
func (b *browser) shoot() []byte {
	b.t.Helper()
	var out struct {
		Data string `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &out)
	text, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// noErrors fails the test when the page reported an error, such as a script that the policy refused.
func (b *browser) noErrors() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.logged) > 0 {
		b.t.Errorf("the page reported: %s", fmt.Sprint(b.logged))
	}
}

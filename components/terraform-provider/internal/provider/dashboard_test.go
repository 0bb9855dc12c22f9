package provider_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/group"
)

// browser is a visitor of a dashboard.
type browser struct {
	t    *testing.T
	http *http.Client
	// base is the address of the overview.
	base string
}

func (b browser) ask(method, address string, in url.Values) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(in.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "http://"+req.URL.Host)
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s %v\n%s", address, resp.Status, err, text)
	}
	return string(text)
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)"`)

// act sends the form of an action with its hidden values, and further pairs.
func (b browser) act(path string, pairs ...string) string {
	b.t.Helper()
	form := b.ask(http.MethodGet, b.base+path, nil)
	_, form, _ = strings.Cut(form, `method="post"`)
	in := url.Values{}
	for _, m := range hiddenInput.FindAllStringSubmatch(form, -1) {
		in.Set(m[1], m[2])
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		in.Set(pairs[i], pairs[i+1])
	}
	return b.ask(http.MethodPost, b.base+path, in)
}

// The program cadre serves a dashboard of a real coordinator. An operator pauses a group, resumes it and undoes its
// rollout from the page, and the page shows the rollout until its end.
func TestTheDashboardOfARealCoordinator(t *testing.T) {
	program, err := exec.LookPath("cadre")
	if err != nil {
		t.Skip("cadre is not on PATH: `make build` makes it")
	}
	if !wholetest.Isolated(t) {
		return
	}
	c := startCluster(t, nil)
	zero := 0
	for _, release := range []string{"one", "two"} {
		spec := group.Spec{Name: "web", Platform: "phala", Replicas: 2, UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &zero},
			Template: group.Template{Compose: composeOf(release), InstanceType: "tdx.small", OSImage: wholetest.OSImage}}
		spec.Normalize()
		done, err := c.client.ApplyGroup(t.Context(), spec, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.client.Wait(t.Context(), "web", client.WaitOptions{Index: done.Index}); err != nil {
			t.Fatal(err)
		}
	}

	cmd := exec.CommandContext(t.Context(), program, "dashboard")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	enter := strings.TrimSpace(line[strings.Index(line, "http://"):])
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := browser{t: t, http: &http.Client{Jar: jar}, base: enter[:strings.Index(enter, "enter?")]}
	if page := b.ask(http.MethodGet, enter, nil); !strings.Contains(page, "Complete") {
		t.Errorf("the overview lacks the group:\n%s", page)
	}
	for path, want := range map[string]string{b.base + "instances/web-0": "admitted", b.base + "operations?all=1": "DONE", b.base + "overlay": "web-1", b.base + "admissions": "UpToDate"} {
		if page := b.ask(http.MethodGet, path, nil); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q:\n%s", path, want, page)
		}
	}

	shows := func(want string) {
		t.Helper()
		c.Eventually("a page with "+want, func() error {
			if page := b.ask(http.MethodGet, b.base+"groups/web", nil); !strings.Contains(page, want) {
				return fmt.Errorf("the page lacks it:\n%s", page)
			}
			return nil
		})
	}
	b.act("act/pause?on=web", "reason", "the nightly report runs", "for", "2h")
	shows("the nightly report runs")
	b.act("act/resume?on=web")
	shows("Pause…")
	before, err := c.client.Group(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if page := b.act("act/undo?on=web", "confirm", "web"); !strings.Contains(page, "goes back to revision") {
		t.Errorf("the undo does not show its outcome:\n%s", page)
	}
	after, err := c.client.Group(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if after.Revision == before.Revision || after.Spec.Template.Compose != composeOf("one") {
		t.Errorf("the undo left revision %s", after.Revision)
	}
	if err := c.client.Wait(t.Context(), "web", client.WaitOptions{Index: after.Index}); err != nil {
		t.Fatal(err)
	}
	shows("every slot is at the target and available")

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end of the dashboard: %v", err)
	}
}

package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestListenTakesLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "example.com:0", "127.0.0.1", "", "127.0.0.1:nothing"} {
		if l, err := Listen(t.Context(), address); err == nil {
			l.Close()
			t.Errorf("%q was taken", address)
		} else if !strings.Contains(err.Error(), "listen ") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestHostMustBeLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8470": true, "localhost:1": true, "LOCALHOST": true, "[::1]:9": true, "127.9.9.9": true,
		"evil.example:8470": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "192.0.2.1": false, "": false, "a@127.0.0.1": false, "127.0.0.1/x": false,
	} {
		if got := loopbackHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// A browser without the secret gets no answer, and neither does a page of another origin.
func TestSession(t *testing.T) {
	b := newBench(t, world(t))
	if code, _ := b.read(b.base); code != http.StatusForbidden {
		t.Errorf("without a session: %d", code)
	}
	if code, _ := b.read(b.base + "enter?secret=" + strings.Repeat("0", 64)); code != http.StatusForbidden {
		t.Errorf("with another secret: %d", code)
	}
	if code, _ := b.read(b.enter); code != http.StatusOK {
		t.Fatalf("with the secret: %d", code)
	}
	at, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := b.read("http://" + at.Host + "/"); code != http.StatusNotFound {
		t.Errorf("outside of the mount: %d", code)
	}
	if n := len(b.http.Jar.Cookies(&url.URL{Scheme: "http", Host: at.Host, Path: "/"})); n != 0 {
		t.Errorf("the cookie is sent outside of the mount")
	}
	request := func(method, path, body string, header ...string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, b.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				req.Host = header[i+1]
				continue
			}
			req.Header.Set(header[i], header[i+1])
		}
		code, _ := b.do(req)
		return code
	}
	if code := request(http.MethodGet, "", "", "Host", "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("a rebound name: %d", code)
	}
	form, kind, origin := "token="+b.server.session.form+"&on=postgres", "application/x-www-form-urlencoded", "http://"+at.Host
	for name, r := range map[string]struct {
		body   string
		header []string
	}{
		"no origin":                   {form, []string{"Content-Type", kind}},
		"another origin":              {form, []string{"Content-Type", kind, "Origin", "http://127.0.0.1:1"}},
		"null origin":                 {form, []string{"Content-Type", kind, "Origin", "null"}},
		"another site":                {form, []string{"Content-Type", kind, "Origin", origin, "Sec-Fetch-Site", "cross-site"}},
		"no token":                    {"on=postgres", []string{"Content-Type", kind, "Origin", origin}},
		"another token":               {"token=x&on=postgres", []string{"Content-Type", kind, "Origin", origin}},
		"a token in the address only": {"", []string{"Content-Type", kind, "Origin", origin}},
		"a large form":                {form + "&x=" + strings.Repeat("x", maxForm), []string{"Content-Type", kind, "Origin", origin}},
	} {
		if code := request(http.MethodPost, "act/pause?on=postgres&token="+b.server.session.form, r.body, r.header...); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := request(http.MethodDelete, "", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", code)
	}
	if n := len(b.ActiveOverrides()); n != 0 {
		t.Errorf("%d overrides were set", n)
	}
	if code := request(http.MethodPost, "act/pause?on=postgres", form, "Content-Type", kind, "Origin", origin); code != http.StatusOK {
		t.Errorf("a form of the page: %d", code)
	}
	if n := len(b.ActiveOverrides()); n != 1 {
		t.Errorf("%d overrides are set", n)
	}
}

// The policy of each answer forbids inline scripts, and the cookie is for this session only.
func TestHeaders(t *testing.T) {
	b := newBench(t, world(t))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, b.enter, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	cookies := resp.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != b.server.session.mount {
		t.Errorf("cookies %v", cookies)
	}
	if strings.Contains(resp.Header.Get("Location"), "secret") {
		t.Error("the redirection keeps the secret")
	}
}

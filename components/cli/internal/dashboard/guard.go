package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// session has the secrets of one run. All of them are random, and none is kept on a disk.
type session struct {
	// mount is the first folder of each path, "/<hex>/". Cookies ignore ports: a browser sends the cookie to a server
	// on another port only below the same path, which other programs of the machine do not know.
	mount string
	// secret is in the printed address, cookie in the browser's cookie, and form in each form.
	secret, cookie, form string
}

const cookieName = "cadre_dashboard"

func newSession() (session, error) {
	s := session{}
	for _, one := range []struct {
		into  *string
		bytes int
	}{{&s.mount, 12}, {&s.secret, 32}, {&s.cookie, 32}, {&s.form, 32}} {
		text := make([]byte, one.bytes)
		if _, err := rand.Read(text); err != nil {
			return s, fmt.Errorf("make the session of the dashboard: %w", err)
		}
		*one.into = hex.EncodeToString(text)
	}
	s.mount = "/" + s.mount + "/"
	return s, nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// policyHeaders forbid inline scripts, other servers and frames. With no-referrer a browser would send the origin
// "null" with each form.
var policyHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'self'; frame-ancestors 'none'",
	"Referrer-Policy":              "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// guard admits a request only with a loopback name as its host, below the mount, and with the session's cookie.
// A request that changes something also needs the page's own origin and the token of its forms.
func (s session) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range policyHeaders {
			w.Header().Set(name, value)
		}
		if !loopbackHost(r.Host) {
			http.Error(w, fmt.Sprintf("host %q: the dashboard answers under a loopback name only, such as 127.0.0.1", clip(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		if !strings.HasPrefix(r.URL.Path, s.mount) {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == s.mount+"enter" {
			s.enter(w, r)
			return
		}
		if cookie, err := r.Cookie(cookieName); err != nil || !same(cookie.Value, s.cookie) {
			http.Error(w, "this browser has no session: open the address that `cadre dashboard` printed", http.StatusForbidden)
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodPost:
			if problem := s.forged(w, r); problem != "" {
				http.Error(w, problem, http.StatusForbidden)
				return
			}
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			http.Error(w, "method "+clip(r.Method)+": the dashboard takes GET and POST", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// enter exchanges the secret of the printed address for the cookie.
func (s session) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !same(r.URL.Query().Get("secret"), s.secret) {
		http.Error(w, "secret: wrong or missing: open the address that `cadre dashboard` printed", http.StatusForbidden)
		return
	}
	// Loopback has no TLS, and a Secure cookie would be lost in some browsers.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: s.cookie, Path: s.mount, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, s.mount, http.StatusSeeOther)
}

// maxForm bounds the body of a form.
const maxForm = 64 << 10

// forged says why a form was not sent by a page of this session; "": it was.
func (s session) forged(w http.ResponseWriter, r *http.Request) string {
	if origin := r.Header.Get("Origin"); origin != "http://"+r.Host {
		return fmt.Sprintf("origin %q: the form was not sent by this dashboard", clip(origin))
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return fmt.Sprintf("sec-fetch-site %q: the form was not sent by this dashboard", clip(site))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return "form: " + err.Error()
	}
	if !same(r.PostForm.Get("token"), s.form) {
		return "token: wrong or missing: reload the page, then send the form again"
	}
	return ""
}

// loopbackHost reports whether a Host header names this machine's loopback interface. A rebound DNS name does not.
// Any port passes, because an SSH tunnel may have another one.
func loopbackHost(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.User != nil {
		return false
	}
	name := u.Hostname()
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// clip bounds a foreign text in an error.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Package webdemo is the program of the starter and of the PostgreSQL demo cluster: a web server
// that names the answering Slot, and shows the members behind the routes that it dials by their
// names.
//
// It never dials an address: names are looked up at each call, since routes appear and move while
// it runs. Every query has its own connection, since a reused one would show one member
// permanently.
package webdemo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Web answers for one Slot. The zero value answers and queries no route.
type Web struct {
	// Self identifies the Slot; Release is any text. Where Instance is nil, Self has the instance
	// or it is omitted.
	Self Hello
	// Instance asks the agent which instance fills the Slot.
	Instance func(context.Context) (string, error)
	// All is the address of the group's own route, "webdemo:8080"; empty: GET /all is not there.
	All string
	// Members of the own group, as far as they are known.
	Members []string
	// Call is the URL of another group's /hello, by its route; empty: GET /call is not there.
	Call string
	// Master and Replica are the addresses of the routes to a database; empty: GET /db is not there.
	Master, Replica string
	// User and Database at both.
	User, Database string
	// Lookup resolves the names of routes; nil is the system's way.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

//go:embed page.html
var page []byte

// busyWait is how long a query waits for its turn: anyone may send a query, and each causes others.
const busyWait = time.Second

// Handler serves
//
//	GET /hello    the answering slot: JSON where that is accepted, else "<slot> release <release>"
//	GET /         the page, where HTML is accepted, else the line of /hello and the result of /call
//	GET /all      the replicas that answer at the own group's route
//	GET /call     the members that answer at the route of another group
//	GET /db       one row, written and read back through the routes to a database
//	GET /healthz  200, for any answer of other members: they do not make this Slot unhealthy
//
// The paths that query others answer 503 with the reason, in the same JSON, when none could be
// queried.
func (w Web) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, "ok\n")
	})
	mux.HandleFunc("GET /hello", func(out http.ResponseWriter, req *http.Request) {
		me := w.hello(req.Context())
		if !accepts(req, "application/json") {
			say(out, me.line())
			return
		}
		answer(out, http.StatusOK, me)
	})
	own := spread{url: "http://" + w.All + "/hello", route: w.All, members: w.Members, lookup: w.Lookup}
	other := spread{url: w.Call, route: w.Call, lookup: w.Lookup}
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, req *http.Request) {
		out.Header().Set("Vary", "Accept")
		if accepts(req, "text/html") {
			showPage(out, req)
			return
		}
		text := w.hello(req.Context()).line()
		if w.Call != "" {
			text += other.ask(req.Context()).lines()
		}
		say(out, text)
	})
	offer(mux, "/all", w.All != "", "start it with -all=<route>:<port>, the route of its own group", func(ctx context.Context) (any, error) {
		found := own.ask(ctx)
		return found, found.err()
	})
	offer(mux, "/call", w.Call != "", "start it with -call=http://<route>:<port>/hello, the route of another group", func(ctx context.Context) (any, error) {
		found := other.ask(ctx)
		return found, found.err()
	})
	db := database{web: w}
	offer(mux, "/db", w.Master != "" && w.Replica != "", "start it with -master=<route>:<port> and -replica=<route>:<port>, the routes to a database", func(ctx context.Context) (any, error) {
		did := db.writeAndRead(ctx)
		if did.Error != "" {
			return did, errors.New(did.Error)
		}
		return did, nil
	})
	return mux
}

// offer serves a path that queries others, some at a time: many requests at the public Consul proxy
// must not become more requests inside. An error makes the answer a 503; the answer itself names
// the reason.
func offer(mux *http.ServeMux, path string, is bool, missing string, ask func(context.Context) (any, error)) {
	turns := make(chan struct{}, 4)
	mux.HandleFunc("GET "+path, func(out http.ResponseWriter, req *http.Request) {
		if !is {
			answer(out, http.StatusNotFound, failure{Error: path + " has no route here: " + missing})
			return
		}
		waited := time.NewTimer(busyWait)
		defer waited.Stop()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-waited.C:
			out.Header().Set("Retry-After", "1")
			answer(out, http.StatusServiceUnavailable, failure{Error: "too many ask for " + path + " at once: ask again in a second"})
			return
		case <-req.Context().Done():
			return
		}
		said, err := ask(req.Context())
		if err != nil {
			answer(out, http.StatusServiceUnavailable, said)
			return
		}
		answer(out, http.StatusOK, said)
	})
}

// failure is an answer that has nothing but a reason.
type failure struct {
	Error string `json:"error"`
}

func showPage(out http.ResponseWriter, req *http.Request) {
	head := out.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	// The page has all that it needs in itself.
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(out, req, "", time.Time{}, bytes.NewReader(page))
}

func say(out http.ResponseWriter, text string) {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(out, text)
}

func answer(out http.ResponseWriter, status int, v any) {
	head := out.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	out.WriteHeader(status)
	write := json.NewEncoder(out)
	write.SetEscapeHTML(false)
	_ = write.Encode(v)
}

// accepts reports whether a request's Accept header names kind: "*/*", which curl sends, names
// nothing.
func accepts(req *http.Request, kind string) bool {
	for _, part := range strings.Split(strings.Join(req.Header.Values("Accept"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), kind) && !refused(params) {
			return true
		}
	}
	return false
}

// refused: a quality of 0 says "not this".
func refused(params string) bool {
	for _, p := range strings.Split(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); strings.EqualFold(name, "q") && err == nil && q == 0 {
			return true
		}
	}
	return false
}

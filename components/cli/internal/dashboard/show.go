package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cadre.dev/client"
)

// layout is everything around the fragments of a page.
type layout struct {
	Base, Title, Cluster, Nav string
	// Here is the address of the page, for links within it.
	Here       string
	Simulated  bool
	Navigation []navEntry
	Said       string
	Connection connection
	Fragments  []drawn
	// Live is the address of the page's stream; empty: the page has none.
	Live string
	// Now is the clock of the dashboard in milliseconds, from which the script counts.
	Now int64
}

// firstAnswers is how long a page waits for its first answers; the stream brings later ones.
const firstAnswers = 4 * time.Second

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[1:]
	p, ok := s.route(path, r.URL.Query())
	if !ok {
		s.write(w, r, http.StatusNotFound, layout{Title: "Not found"}, fragment{"error", errorModel{"not found", "no page has the address " + clip(path)}})
		return
	}
	got, leave := s.join(p) //nolint:contextcheck // sources outlive the request that starts them
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(s.patience, firstAnswers))
	defer cancel()
	snaps := make([]snapshot, len(got))
	for n, f := range got {
		snaps[n] = f.await(ctx)
	}
	list, err := fragments(s.draw.whole, p, snaps, s.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	l := layout{Title: p.title, Nav: p.nav, Fragments: list, Connection: connectionOf(snaps), Said: s.takeSaid()}
	l.Live = "live?at=" + url.QueryEscape(path) + "&" + r.URL.RawQuery
	status := http.StatusOK
	if snaps[0].value == nil && snaps[0].err != nil {
		status = statusOf(snaps[0].err)
	}
	s.write(w, r, status, l)
}

// join joins the feeds of a page. The caller calls leave once.
func (s *Server) join(p page) (feeds []*feed, leave func()) {
	var leaves []func()
	for _, src := range p.sources {
		f, one := s.hub.join(src)
		feeds, leaves = append(feeds, f), append(leaves, one)
	}
	return feeds, func() {
		for _, one := range leaves {
			one()
		}
	}
}

// write writes a whole page; more are drawn after the fragments of l.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, l layout, more ...fragment) {
	l.Here = strings.TrimPrefix(r.URL.RequestURI(), "/")
	l.Base, l.Cluster, l.Simulated, l.Navigation, l.Now = s.session.mount, s.Client.Context().Cluster, s.Simulated, navigation, s.Now().UnixMilli()
	var b bytes.Buffer
	if len(more) > 0 {
		list, err := fragments(s.draw.whole, page{build: func([]snapshot, time.Time) []fragment { return more }}, []snapshot{{value: true}}, s.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		l.Fragments = append(l.Fragments, list...)
	}
	if err := s.draw.whole.ExecuteTemplate(&b, "layout", l); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser is gone
}

// statusOf is the HTTP status of an error of the API.
func statusOf(err error) int {
	switch client.KindOf(err) {
	case client.Invalid:
		return http.StatusUnprocessableEntity
	case client.Denied:
		return http.StatusForbidden
	case client.NotFound:
		return http.StatusNotFound
	case client.Conflict:
		return http.StatusConflict
	case client.Unavailable, client.Timeout, client.Untrusted:
		return http.StatusServiceUnavailable
	case client.Internal:
	}
	return http.StatusBadGateway
}

// beat is the interval of a comment on a quiet stream: it finds a browser that went away.
const beat = 20 * time.Second

// live streams the fragments of a page that changed, and the state of the connection.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p, ok := s.route(q.Get("at"), q)
	if !ok {
		http.NotFound(w, r)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many live streams are open: close other tabs of the dashboard", http.StatusServiceUnavailable)
		return
	}
	feeds, leave := s.join(p) //nolint:contextcheck // see page
	defer leave()
	out := &stream{w: w, c: http.NewResponseController(w), sent: map[string]string{}}
	w.Header().Set("Content-Type", "text/event-stream")
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		snaps := make([]snapshot, len(feeds))
		changes := make([]<-chan struct{}, len(feeds))
		for n, f := range feeds {
			snaps[n], changes[n] = f.look()
		}
		err := out.send("connection", "", connectionOf(snaps))
		if err == nil && snaps[0].answered() {
			err = s.sendFragments(out, p, snaps)
		}
		if err != nil || !awaitAny(r.Context(), changes, ticker.C, out) {
			return
		}
	}
}

func (s *Server) sendFragments(out *stream, p page, snaps []snapshot) error {
	if snaps[0].value == nil && snaps[0].err == nil {
		return nil // the connection's state says it all
	}
	list, err := fragments(s.draw.live, p, snaps, s.Now())
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := out.send("fragment", d.ID, map[string]string{"id": d.ID, "html": string(d.HTML)}); err != nil {
			return err
		}
	}
	return nil
}

// awaitAny waits until one of the channels closes; false: the stream ends.
func awaitAny(ctx context.Context, changes []<-chan struct{}, beats <-chan time.Time, out *stream) bool {
	any, stop := context.WithCancel(ctx)
	defer stop()
	woken := make(chan struct{}, len(changes))
	for _, c := range changes {
		go func() {
			select {
			case <-c:
				woken <- struct{}{}
			case <-any.Done():
			}
		}()
	}
	for {
		select {
		case <-woken:
			return true
		case <-ctx.Done():
			return false
		case <-beats:
			if out.comment() != nil {
				return false
			}
		}
	}
}

// stream writes server-sent events, and omits an event that it sent last.
type stream struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	sent map[string]string
}

// slow is how long a browser may take to read one event.
const slow = 15 * time.Second

func (s *stream) send(event, key string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if old, ok := s.sent[event+key]; ok && old == string(text) {
		return nil
	}
	s.sent[event+key] = string(text)
	return s.put("event: " + event + "\ndata: " + string(text) + "\n\n")
}

func (s *stream) comment() error { return s.put(":\n\n") }

func (s *stream) put(text string) error {
	if err := s.c.SetWriteDeadline(time.Now().Add(slow)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}

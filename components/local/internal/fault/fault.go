package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Effect is the effect of a Fault on a request.
type Effect string

const (
	// TimeoutBefore means: nothing happens and no answer comes.
	TimeoutBefore Effect = "timeout_before"
	// TimeoutAfter means: it happens and no answer comes.
	TimeoutAfter Effect = "timeout_after"
	// ResetBefore means: nothing happens and the connection closes at once.
	ResetBefore Effect = "reset_before"
	// ResetAfter means: it happens and the connection closes at once.
	ResetAfter Effect = "reset_after"
	// Status means: nothing happens and the answer is Fault.Status.
	Status Effect = "status"
	// StatusAfter means: it happens and the answer is Fault.Status all the same.
	StatusAfter Effect = "status_after"
	// Delay means: it happens Fault.Delay later.
	Delay Effect = "delay"
)

// Fault hits the next Times requests that match.
type Fault struct {
	ID int `json:"id"`
	// Match is a regular expression on "METHOD /path".
	Match string `json:"match"`
	// CVM, when set, is the name of the CVM that the call must be about.
	CVM string `json:"cvm,omitempty"`
	// Host, when set, is the name of the host of dstack-vmm that the call must come to.
	Host   string `json:"host,omitempty"`
	Times  int    `json:"times"`
	Effect Effect `json:"effect"`
	Status int    `json:"status,omitempty"`
	// Delay of effect delay; of a timeout, how long the caller is kept, 60 s if 0.
	Delay   string            `json:"delay,omitempty"`
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Hits    int               `json:"hits"`

	re    *regexp.Regexp
	delay time.Duration
}

const maxFaults = 1000

// Check completes f, or reports its problem.
func (f *Fault) Check() error {
	var err error
	if f.Match == "" {
		return errors.New("match: is empty; give a regular expression on \"METHOD /path\"")
	}
	if f.re, err = regexp.Compile(f.Match); err != nil {
		return fmt.Errorf("match: %q is not a regular expression on \"METHOD /path\": %w", f.Match, err)
	}
	if f.Delay != "" {
		if f.delay, err = time.ParseDuration(f.Delay); err != nil || f.delay < 0 {
			return fmt.Errorf("delay: %q is not a duration such as \"2s\"", f.Delay)
		}
	}
	switch f.Effect {
	case Status, StatusAfter:
		if f.Status < 200 || f.Status > 599 {
			return fmt.Errorf("status: %d is not an answer; effect %s needs one of 200 to 599", f.Status, f.Effect)
		}
	case TimeoutBefore, TimeoutAfter, ResetBefore, ResetAfter:
	case Delay:
		if f.delay == 0 {
			return fmt.Errorf("delay: effect delay needs one")
		}
	default:
		return fmt.Errorf("effect: %q is not one of timeout_before, timeout_after, reset_before, reset_after, status, status_after, delay", f.Effect)
	}
	if f.Times <= 0 {
		f.Times = 1
	}
	return nil
}

func (f *Fault) before() bool {
	return f.Effect == TimeoutBefore || f.Effect == ResetBefore || f.Effect == Status
}

func (f *Fault) hold() time.Duration {
	switch {
	case f.Effect == ResetBefore || f.Effect == ResetAfter:
		return 0
	case f.delay == 0:
		return time.Minute
	default:
		return f.delay
	}
}

// Injector holds the armed faults. Safe for concurrent use.
type Injector struct {
	mu     sync.Mutex
	faults []*Fault
	last   int
}

// Add arms f, which must have passed Check, and returns it with its id.
func (in *Injector) Add(f Fault) (Fault, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.faults) >= maxFaults {
		return f, fmt.Errorf("%d faults are armed already; delete some", maxFaults)
	}
	in.last++
	f.ID, f.Hits = in.last, 0
	in.faults = append(in.faults, &f)
	return f, nil
}

// List returns the faults; those with Hits == Times are spent.
func (in *Injector) List() []Fault {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]Fault, 0, len(in.faults))
	for _, f := range in.faults {
		out = append(out, *f)
	}
	return out
}

// Clear removes the fault with that id, or all when id is 0.
func (in *Injector) Clear(id int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults = slices.DeleteFunc(in.faults, func(f *Fault) bool { return id == 0 || f.ID == id })
}

// take spends one hit of the first armed fault that matches.
func (in *Injector) take(method, path, cvm, host string) (Fault, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.faults {
		if f.Hits < f.Times && f.re.MatchString(method+" "+path) && (f.CVM == "" || f.CVM == cvm) && (f.Host == "" || f.Host == host) {
			f.Hits++
			return *f, true
		}
	}
	return Fault{}, false
}

// discard swallows an answer.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// status logs the status code before any client can see it.
type status struct {
	http.ResponseWriter
	code int
	// note receives the code once, before it is sent.
	note func(code int)
}

func (s *status) WriteHeader(code int) {
	s.first(code)
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(p []byte) (int, error) {
	s.first(http.StatusOK)
	return s.ResponseWriter.Write(p)
}

func (s *status) first(code int) {
	if s.code == 0 {
		s.code = code
		s.note(code)
	}
}

func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Wrap puts faults and log around next. about names the CVM of a request when
// its path does; handlers add it with About.
func Wrap(next http.Handler, in *Injector, log *Log, about func(*http.Request) string) http.Handler {
	return wrap(next, in, log, about, "", "detail")
}

// WrapHost is Wrap for the endpoint of a host of dstack-vmm.
func WrapHost(next http.Handler, in *Injector, log *Log, about func(*http.Request) string, host string) http.Handler {
	return wrap(next, in, log, about, host, "error")
}

// wrap answers injected errors under the given key.
func wrap(next http.Handler, in *Injector, log *Log, about func(*http.Request) string, host, key string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cvm, begun := about(r), time.Now().UTC()
		f, hit := in.take(r.Method, r.URL.Path, cvm, host)
		entry := log.begin(Call{Time: begun, Method: r.Method, Path: r.URL.Path, CVM: cvm, Host: host, Fault: string(f.Effect)})
		r = r.WithContext(withEntry(r.Context(), entry))
		seen := !hit || f.Effect == Delay // the caller sees the API's own answer
		executed := &status{ResponseWriter: w, note: func(code int) {
			entry.note(func(c *Call) {
				c.Executed, c.Millis = code, time.Since(begun).Milliseconds()
				if seen {
					c.Status = code
				}
			})
		}}
		if seen {
			if !hit || wait(r, f.delay) {
				next.ServeHTTP(executed, r)
			}
			return
		}
		if f.before() {
			// Read to the end: only then does the server notice that a caller left.
			_, _ = io.Copy(io.Discard, r.Body)
		} else {
			executed.ResponseWriter = discard{http.Header{}}
			next.ServeHTTP(executed, r)
		}
		if f.Effect == Status || f.Effect == StatusAfter {
			entry.note(func(c *Call) { c.Status = f.Status })
			answer(w, f, key)
			return
		}
		wait(r, f.hold())
		// No answer at all: the server closes the connection without one.
		HangUp(w)
	})
}

func answer(w http.ResponseWriter, f Fault, key string) {
	w.Header().Set("Content-Type", "application/json")
	for k, v := range f.Headers {
		w.Header().Set(k, v)
	}
	body := f.Body
	if body == "" {
		body = `{"` + key + `":"injected fault ` + strconv.Itoa(f.ID) + `"}`
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(body))
}

// HangUp closes the connection of a request without an answer.
func HangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// wait waits d; false when the caller went away first.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

package webdemo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"cadre.dev/demo/load/hosts"
)

// Bounds of the cost of one query of a route, for any number of answers.
const (
	mostAsked   = 64
	lookTimeout = 3 * time.Second
	askTimeout  = time.Second
)

// spread finds out who answers at a route, by one connection after the other.
type spread struct {
	url, route string
	// members that are expected to answer; none: their number is unknown.
	members []string
	lookup  func(context.Context, string) ([]string, error)
}

// Spread lists the members that answered at a route.
type Spread struct {
	Route    string    `json:"route"`
	Replicas []Replica `json:"replicas"`
	// Silent members were expected and did not answer.
	Silent []string `json:"silent"`
	// Asked is the number of questions, answered or not.
	Asked  int       `json:"asked"`
	TookMS float64   `json:"took_ms"`
	Errors []Failure `json:"errors"`
}

// Replica is one member that answered.
type Replica struct {
	Slot     string `json:"slot"`
	Release  string `json:"release"`
	Instance string `json:"instance,omitempty"`
	Answers  int    `json:"answers"`
	// LatencyMS of the middle one of its answers, connecting included.
	LatencyMS float64 `json:"latency_ms"`

	took []time.Duration
}

// Failure is a reason and how often it was met.
type Failure struct {
	Error string `json:"error"`
	Times int    `json:"times"`
}

// err is the reason without any answer.
func (s Spread) err() error {
	if len(s.Replicas) > 0 {
		return nil
	}
	if len(s.Errors) == 0 {
		return errors.New("no member was queried")
	}
	return errors.New(s.Errors[0].Error)
}

// lines for people without a browser.
func (s Spread) lines() string {
	var text strings.Builder
	for _, r := range s.Replicas {
		text.WriteString("  " + Hello{Slot: r.Slot, Release: r.Release}.line())
	}
	if err := s.err(); err != nil {
		fmt.Fprintf(&text, "  %s does not answer: %v\n", s.Route, err)
	}
	return text.String()
}

// ask queries until every expected member has answered, or until enough answers in a row came from
// known members: three for each known one, and six at least.
func (s spread) ask(ctx context.Context) Spread {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found := Spread{Route: s.route, Replicas: []Replica{}, Silent: []string{}, Errors: []Failure{}}
	web := &http.Client{
		Timeout: askTimeout,
		// A member names itself, and must not redirect the query.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: hosts.Dialer(s.lookup), DisableKeepAlives: true},
	}
	for stale := 0; found.Asked < mostAsked && stale < max(6, 3*len(found.Replicas)) && ctx.Err() == nil && !found.complete(s.members); stale++ {
		found.Asked++
		start := time.Now()
		said, err := s.question(ctx, web)
		if err != nil {
			found.failed(err)
			continue
		}
		if found.met(said, time.Since(start)) {
			stale = -1
		}
	}
	found.finish(s.members)
	found.TookMS = milliseconds(time.Since(began))
	return found
}

func (s spread) question(ctx context.Context, web *http.Client) (said Hello, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return said, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return said, plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return said, errors.New(resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&said); err != nil {
		return said, fmt.Errorf("read the answer: %w", err)
	}
	if said.Slot == "" {
		return said, errors.New("the answer names no slot")
	}
	return said, nil
}

// plain returns the part of an error that is the same for the next connection.
func plain(err error) error {
	var op *net.OpError
	var name *net.DNSError
	var slow net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &name):
		return name
	case errors.As(err, &op):
		return fmt.Errorf("%s: %w", op.Op, innermost(op))
	default:
		return innermost(err)
	}
}

func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// met notes an answer, and reports whether that member is a new one.
func (s *Spread) met(said Hello, took time.Duration) bool {
	at := slices.IndexFunc(s.Replicas, func(r Replica) bool { return r.Slot == said.Slot })
	fresh := at < 0
	if fresh {
		at = len(s.Replicas)
		s.Replicas = append(s.Replicas, Replica{})
	}
	r := &s.Replicas[at]
	r.Slot, r.Release, r.Instance = said.Slot, said.Release, said.Instance
	r.Answers++
	r.took = append(r.took, took)
	return fresh
}

func (s *Spread) failed(err error) {
	text := err.Error()
	at := slices.IndexFunc(s.Errors, func(f Failure) bool { return f.Error == text })
	if at < 0 && len(s.Errors) < 8 {
		at = len(s.Errors)
		s.Errors = append(s.Errors, Failure{Error: text})
	}
	if at >= 0 {
		s.Errors[at].Times++
	}
}

// complete: all of members have answered, and there are some.
func (s *Spread) complete(members []string) bool {
	return len(members) > 0 && len(s.silent(members)) == 0
}

func (s *Spread) silent(members []string) []string {
	return slices.DeleteFunc(slices.Clone(members), func(m string) bool {
		return slices.ContainsFunc(s.Replicas, func(r Replica) bool { return r.Slot == m })
	})
}

func (s *Spread) finish(members []string) {
	s.Silent = append(s.Silent, s.silent(members)...)
	for i := range s.Replicas {
		r := &s.Replicas[i]
		slices.Sort(r.took)
		r.LatencyMS = milliseconds(r.took[len(r.took)/2])
	}
	slices.SortFunc(s.Replicas, func(a, b Replica) int { return bySlot(a.Slot, b.Slot) })
}

// bySlot orders worker-2 before worker-10.
func bySlot(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// milliseconds with as many digits as say something.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

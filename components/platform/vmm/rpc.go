package vmm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
	"cadre.dev/platform/internal/words"
)

const (
	// maxReply bounds one object, maxListReply a list. A CVM comes with its compose file and env.
	maxReply     = 8 << 20
	maxListReply = 64 << 20
	maxBackoff   = 10 * time.Second
	maxMessage   = 500
	// shortTimeout bounds the next question to a host that gave no answer to the last one.
	shortTimeout = 3 * time.Second
	// stopFactor lengthens the time of StopVm: the host waits for the process to end.
	stopFactor = 3
)

// host is one VMM.
type host struct {
	Endpoint
	client *Client
	base   string
	http   *http.Client
	// down: the last question got no answer. The next one is asked once and waits for a shorter time,
	// so that a dead host does not slow down every listing.
	down atomic.Bool
}

// call is one request to a host.
type call struct {
	doing  string
	method string
	body   any
	into   any // decoded reply; nil ignores it
	limit  int64
	wait   time.Duration // 0: the client's CallTimeout
}

// Error is an answer of a VMM that is not a success.
type Error struct {
	// Doing is the requested action with its node, e.g. "node a: StartVm of cvm 1f0c...".
	Doing string
	// Status is the HTTP status code.
	Status int
	// Message is the host's text, bounded.
	Message string

	fromVMM bool
	kinds   []error
}

// Error names the action and the answer.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: the host answered %d", e.Doing, e.Status)
	if e.Message != "" {
		text += ": " + e.Message
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		text += " (check the token of the VMM)"
	case e.Status >= 300 && e.Status < 400:
		text += " (redirects are refused: set the final URL of the endpoint)"
	}
	return text
}

// Unwrap gives the sentinels of package platform that hold for e.
func (e *Error) Unwrap() []error { return e.kinds }

// said reports the answer 400 of the VMM itself: its handler ended with an error, which may have come
// after a part of the effect.
func said(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status == http.StatusBadRequest && answer.fromVMM
}

// read makes a call without effect, repeating it while that can help. All attempts share one
// budget of time, so that one host cannot use up the caller's.
func (h *host) read(ctx context.Context, r call) error {
	budget, attempts := h.client.timeout, h.client.attempts
	if h.down.Load() {
		budget, attempts = min(budget, shortTimeout), 1
	}
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, max(time.Until(deadline)*3/4, time.Millisecond))
	}
	within, cancel := context.WithTimeoutCause(ctx, budget, fmt.Errorf("no answer within %s", budget.Round(time.Millisecond)))
	defer cancel()
	pause := h.client.backoff
	for attempt := 1; ; attempt++ {
		err := h.once(within, r)
		if err == nil || attempt >= attempts || !worthRepeating(err) || within.Err() != nil {
			return err
		}
		wait := httpcall.Jitter(pause)
		h.client.log.Warn("vmm read repeated", "node", h.Name, "doing", r.doing, "attempt", attempt, "wait", wait, "error", err)
		if !httpcall.Sleep(within, wait) {
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// write makes a call with an effect exactly once.
func (h *host) write(ctx context.Context, r call) error { return h.once(ctx, r) }

func worthRepeating(err error) bool {
	if answer := (*Error)(nil); errors.As(err, &answer) {
		return httpcall.Repeatable(err, answer.Status)
	}
	return httpcall.Repeatable(err, 0)
}

func (h *host) once(ctx context.Context, r call) error {
	r.doing = "node " + h.Name + ": " + r.doing
	if ctx.Err() != nil {
		return fmt.Errorf("%s: not sent: %w: %w", r.doing, platform.ErrRefused, context.Cause(ctx))
	}
	wait := positive(r.wait, h.client.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer within %s", wait))
	defer cancel()
	req, err := h.request(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", r.doing, platform.ErrRefused, err)
	}
	resp, err := httpcall.Do(h.http, r.doing, req) //nolint:bodyclose // Read closes it
	h.down.Store(err != nil && !errors.Is(err, context.Canceled))
	if err != nil {
		return err
	}
	body, err := httpcall.Read(r.doing, resp, cmp.Or(r.limit, maxReply))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return h.newError(r.doing, resp.StatusCode, body)
	}
	if r.into == nil {
		return nil // an empty answer, null or {}
	}
	if err := json.Unmarshal(body, r.into); err != nil {
		return &httpcall.ReplyError{Err: fmt.Errorf("%s: the reply is not of the expected form: %w", r.doing, err)}
	}
	return nil
}

func (h *host) request(ctx context.Context, r call) (*http.Request, error) {
	body := r.body
	if body == nil {
		body = struct{}{}
	}
	buf, err := httpcall.Body(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/prpc/"+r.method+"?json", buf)
	if err != nil {
		return nil, err
	}
	// net/http sends a request with an effect again only when not one byte of it was written.
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "cadre")
	if h.client.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.client.token)
	}
	return req, nil
}

func (h *host) newError(doing string, status int, body []byte) *Error {
	e := &Error{Doing: doing, Status: status}
	var reply struct {
		Error *string `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil && reply.Error != nil {
		e.fromVMM, e.Message = true, h.clean(*reply.Error)
	} else {
		e.Message = h.clean(string(body[:min(len(body), 120)]))
	}
	switch status {
	case http.StatusTooManyRequests:
		e.kinds = []error{platform.ErrThrottled, platform.ErrRefused}
	case http.StatusUnauthorized, http.StatusForbidden:
		e.kinds = []error{platform.ErrRefused} // not let in: no handler ran
	}
	return e
}

// clean makes a host's text safe to print: one line without control characters and the token, bounded.
func (h *host) clean(s string) string {
	if token := h.client.token; token != "" {
		s = strings.ReplaceAll(s, token, "[token]")
	}
	return words.OneLine(s, maxMessage)
}

// unknown takes the sentinels from err: after an effect, no later refusal says that there was none.
func unknown(err error) error { return errors.New(err.Error()) }

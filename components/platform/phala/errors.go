package phala

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// Error is an answer of the platform that is not a success.
type Error struct {
	// Doing is the requested action, e.g. "update cvm 1f0c...".
	Doing string
	// Status is the HTTP status code.
	Status int
	// Code is the platform's error_code, e.g. "ERR-02-005"; empty when it gave none.
	Code string
	// Message is the platform's text, bounded.
	Message string
	// Suggestions and Links are the platform's own, bounded.
	Suggestions, Links []string
	// RequestID names the request in the platform's own logs.
	RequestID string
	// RetryAfter is how long the platform asks to wait; 0 when it does not say.
	RetryAfter time.Duration

	kinds []error
}

// Error names the action, the answer, and the request id.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: platform answered %d", e.Doing, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	for _, kind := range e.kinds {
		if errors.Is(kind, platform.ErrOnChain) || errors.Is(kind, platform.ErrSuspended) {
			b.WriteString(" (" + kind.Error() + ")")
		}
	}
	if hint := hintFor(e.Status, e.Code); hint != "" {
		b.WriteString(" (" + hint + ")")
	}
	if len(e.Suggestions) > 0 {
		b.WriteString(" (it suggests: " + strings.Join(e.Suggestions, "; ") + ")")
	}
	if len(e.Links) > 0 {
		b.WriteString(" (see " + strings.Join(e.Links, ", ") + ")")
	}
	if e.RequestID != "" {
		b.WriteString(" [request " + e.RequestID + "]")
	}
	return b.String()
}

// Unwrap gives the sentinels of package platform that hold for e.
func (e *Error) Unwrap() []error { return e.kinds }

func hintFor(status int, code string) string {
	switch {
	case onChain(status):
		return "updates in two phases are not supported: use the PHALA key service"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "check the platform api key and its workspace"
	case status >= 300 && status < 400:
		return "redirects are refused: set the final url as the platform's base url"
	case strings.HasSuffix(code, "04-001"):
		return "the account has no balance"
	case strings.HasSuffix(code, "02-015"), strings.HasSuffix(code, "04-002"):
		return "a quota of the account is used up"
	}
	return ""
}

// onChain are the platform's own answers to a change that a key service on a chain must
// allow first: register the hash, an expired hash, a failed transaction, a hash not allowed.
func onChain(status int) bool { return status >= 465 && status <= 468 }

const maxMessage = 500

// newError classifies an answer. A 4xx proves that nothing happened only when it
// came from the platform itself, that is with a JSON body: a proxy's page does not.
func newError(doing string, resp *http.Response, body []byte, now time.Time) *Error {
	e := &Error{Doing: doing, Status: resp.StatusCode, RequestID: words.OneLine(resp.Header.Get("X-Request-ID"), 100)}
	fromPlatform := e.readBody(body)
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	s := resp.StatusCode
	switch {
	case s == http.StatusTooManyRequests:
		e.kinds = []error{platform.ErrThrottled, platform.ErrRefused}
	case s == http.StatusNotFound && fromPlatform:
		e.kinds = []error{platform.ErrNotFound, platform.ErrRefused}
	case s == http.StatusConflict && e.Code == "" && fromPlatform:
		e.kinds = []error{platform.ErrBusy, platform.ErrRefused}
	case s == http.StatusBadRequest && strings.Contains(strings.ToLower(e.Message), "configuration parameters not compatible"):
		// Concurrent creates of one workspace get this; it passes.
		e.kinds = []error{platform.ErrBusy, platform.ErrRefused}
	case onChain(s) && fromPlatform:
		e.kinds = []error{platform.ErrOnChain, platform.ErrRefused}
	case (s == http.StatusForbidden || s == http.StatusPaymentRequired) && fromPlatform && strings.Contains(strings.ToLower(e.Message), "suspend"):
		e.kinds = []error{platform.ErrSuspended, platform.ErrRefused}
	case s == http.StatusRequestTimeout:
	case s >= 400 && s < 500 && fromPlatform:
		e.kinds = []error{platform.ErrRefused}
	}
	return e
}

// readBody reads the known error shapes and reports whether the body is one of them.
func (e *Error) readBody(body []byte) bool {
	var w struct {
		Detail    json.RawMessage `json:"detail"`
		Message   string          `json:"message"`
		Code      string          `json:"error_code"`
		RequestID string          `json:"request_id"`
		Details   []struct {
			Field   string          `json:"field"`
			Value   json.RawMessage `json:"value"`
			Message string          `json:"message"`
		} `json:"details"`
		Suggestions json.RawMessage `json:"suggestions"`
		Links       json.RawMessage `json:"links"`
	}
	// Types that do not fit leave the rest decoded; only non-JSON counts as foreign.
	_ = json.Unmarshal(body, &w)
	if !json.Valid(body) {
		e.Message = words.OneLine(string(body), 120)
		return false
	}
	e.Code = words.OneLine(w.Code, 40)
	if e.RequestID == "" {
		e.RequestID = words.OneLine(w.RequestID, 100)
	}
	e.Suggestions, e.Links = advice(w.Suggestions), advice(w.Links)
	parts := []string{}
	if w.Message != "" {
		parts = append(parts, w.Message)
	}
	for _, d := range w.Details {
		parts = append(parts, strings.Trim(d.Field+": "+d.Message, ": "))
	}
	if text := detailText(w.Detail, e); text != "" {
		parts = append(parts, text)
	}
	e.Message = words.OneLine(strings.Join(parts, "; "), maxMessage)
	return true
}

const (
	maxAdvice     = 5
	maxAdviceText = 300
)

// advice reads a list of texts, or of objects with a text; it leaves out other elements.
func advice(raw json.RawMessage) []string {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	var out []string
	for _, item := range items[:min(len(items), maxAdvice)] {
		var text string
		if json.Unmarshal(item, &text) != nil {
			var fields map[string]json.RawMessage
			if json.Unmarshal(item, &fields) != nil {
				continue
			}
			var parts []string
			for _, key := range []string{"label", "title", "text", "message", "url", "href"} {
				var part string
				if json.Unmarshal(fields[key], &part) == nil && part != "" {
					parts = append(parts, part)
				}
			}
			text = strings.Join(parts, " ")
		}
		if text = words.OneLine(text, maxAdviceText); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func detailText(raw json.RawMessage, e *Error) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var items []struct {
		Loc []json.RawMessage `json:"loc"`
		Msg string            `json:"msg"`
	}
	if json.Unmarshal(raw, &items) == nil {
		lines := []string{}
		for _, it := range items {
			path := []string{}
			for _, l := range it.Loc {
				path = append(path, strings.Trim(string(l), `"`))
			}
			lines = append(lines, strings.Trim(strings.Join(path, ".")+": "+it.Msg, ": "))
		}
		return strings.Join(lines, "; ")
	}
	var object struct {
		Message string `json:"message"`
		Code    string `json:"error_code"`
	}
	if json.Unmarshal(raw, &object) == nil {
		if e.Code == "" {
			e.Code = words.OneLine(object.Code, 40)
		}
		if object.Message != "" {
			return object.Message
		}
	}
	return string(raw)
}

// retryAfter reads seconds or an HTTP date; it trusts at most ten minutes.
func retryAfter(h string, now time.Time) time.Duration {
	if h == "" {
		return 0
	}
	var d time.Duration
	if s, err := strconv.Atoi(strings.TrimSpace(h)); err == nil {
		d = time.Duration(min(max(s, 0), 600)) * time.Second
	} else if at, err := http.ParseTime(h); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), 10*time.Minute)
}

package phala

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
	"cadre.dev/platform/internal/words"
)

const (
	// maxReply bounds one object, maxListReply a list.
	maxReply     = 2 << 20
	maxListReply = 16 << 20
	maxBackoff   = 20 * time.Second
)

// call is one request.
type call struct {
	doing  string
	method string
	path   string
	body   any // JSON; nil sends none
	into   any // decoded reply; nil ignores it
	limit  int64
	date   *time.Time // takes the server's time of a success
}

// read makes a call without effect, repeating it while that can help.
func (c *Client) read(ctx context.Context, r call) error {
	pause := c.backoff
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, r)
		if err == nil || attempt >= c.attempts || !worthRepeating(err) {
			return err
		}
		wait := httpcall.Jitter(pause)
		var answer *Error
		if errors.As(err, &answer) && answer.RetryAfter > 0 {
			wait = answer.RetryAfter
		}
		c.log.Warn("platform read repeated", "doing", r.doing, "attempt", attempt, "wait", wait, "error", err)
		if !httpcall.Sleep(ctx, wait) {
			return fmt.Errorf("%w (while waiting to repeat: %w)", err, context.Cause(ctx))
		}
		pause = min(2*pause, maxBackoff)
	}
}

// write makes a call with an effect exactly once.
func (c *Client) write(ctx context.Context, r call) error { return c.once(ctx, r) }

func worthRepeating(err error) bool {
	if answer := (*Error)(nil); errors.As(err, &answer) {
		busy := errors.Is(err, platform.ErrBusy) && !errors.Is(err, context.Canceled)
		return busy || httpcall.Repeatable(err, answer.Status)
	}
	return httpcall.Repeatable(err, 0)
}

func (c *Client) once(ctx context.Context, r call) error {
	if err := c.waitQuiet(ctx); err != nil {
		// Nothing was sent.
		return fmt.Errorf("%s: %w: %w: %w", r.doing, platform.ErrThrottled, platform.ErrRefused, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: not sent: %w: %w", r.doing, platform.ErrRefused, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", r.doing, platform.ErrRefused, err)
	}
	resp, err := httpcall.Do(c.http, r.doing, req) //nolint:bodyclose // Read closes it
	if err != nil {
		return err
	}
	body, err := httpcall.Read(r.doing, resp, cmp.Or(r.limit, maxReply))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		answer := newError(r.doing, resp, body, time.Now())
		if answer.Status == http.StatusTooManyRequests {
			c.throttled(answer.RetryAfter)
		}
		return answer
	}
	if r.date != nil {
		*r.date, _ = http.ParseTime(resp.Header.Get("Date")) // zero: no date in the answer
	}
	if r.into == nil {
		return nil
	}
	if err := json.Unmarshal(body, r.into); err != nil {
		return &httpcall.ReplyError{Err: fmt.Errorf("%s: the platform's reply (request %s) is not of the expected form: %w",
			r.doing, words.OneLine(resp.Header.Get("X-Request-ID"), 100), err)}
	}
	return nil
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		encoded, err := httpcall.Body(r.body)
		if err != nil {
			return nil, err
		}
		body = encoded
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, err
	}
	// net/http sends a request with an effect again only when not one byte of it
	// was written, which is no second effect.
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else if r.method != http.MethodGet {
		req.Body = http.NoBody
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-API-Key", c.key)
	req.Header.Set("X-Phala-Version", APIVersion)
	req.Header.Set("User-Agent", "cadre")
	return req, nil
}

// throttled keeps the whole account quiet for a while (R73).
func (c *Client) throttled(after time.Duration) {
	if after <= 0 {
		after = c.backoff
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(after); until.After(c.quietUntil) {
		c.quietUntil = until
	}
}

func (c *Client) waitQuiet(ctx context.Context) error {
	c.mu.Lock()
	wait := time.Until(c.quietUntil)
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return fmt.Errorf("the account must wait %s more", wait.Round(time.Millisecond))
	}
	if !httpcall.Sleep(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}

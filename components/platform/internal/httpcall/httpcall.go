// Package httpcall makes the requests of the drivers: with bounded replies, and with errors that say
// why a call got no answer.
package httpcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// ReplyError is a success whose body cannot be used.
type ReplyError struct{ Err error }

func (e *ReplyError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ReplyError) Unwrap() error { return e.Err }

// Body is v as the body of a request.
func Body(v any) (*bytes.Buffer, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return &buf, nil
}

// Do sends req, whose error names the cause of an ended context.
func Do(client *http.Client, doing string, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if err == nil {
		return resp, nil
	}
	if cause := context.Cause(req.Context()); cause != nil {
		return nil, fmt.Errorf("%s: %w (%w)", doing, cause, err)
	}
	return nil, fmt.Errorf("%s: %w", doing, err)
}

// Read reads and closes the body of resp, of at most limit bytes. A longer one is a *ReplyError.
func Read(doing string, resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: read the reply (status %d): %w", doing, resp.StatusCode, err)
	}
	if int64(len(body)) > limit {
		return nil, &ReplyError{fmt.Errorf("%s: the reply is larger than %d bytes", doing, limit)}
	}
	return body, nil
}

// Repeatable reports whether a read may succeed when it is repeated after err. status is that of the
// server's answer; 0: it gave none.
func Repeatable(err error, status int) bool {
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case status == 0:
		var bad *ReplyError
		return !errors.As(err, &bad)
	}
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// Jitter is between half of pause and pause.
func Jitter(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause/2+1) //nolint:gosec // jitter needs no secrecy
}

// Sleep reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

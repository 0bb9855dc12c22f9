package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"cadre.dev/core/group"
)

// httpRetry is the pause between calls to a workload that does not answer yet.
const httpRetry = time.Second

// act starts the hook's action. The channel yields its outcome once and is then
// closed; it is nil for a hook that only waits for a caller.
func (s *step) act(ctx context.Context, h *openHook) <-chan outcome {
	var work func(context.Context, *openHook) error
	switch {
	case h.spec.HTTP != nil:
		work = s.callHTTP
	case h.spec.Exec != nil:
		work = s.runCommand
	case h.spec.Driver != nil:
		work = s.callDriver
	case h.spec.Wait != nil:
		return nil
	default:
		work = unknownAction
	}
	out := make(chan outcome, 1)
	go func() {
		defer close(out)
		switch err := work(ctx, h); {
		case err == nil:
			out <- outcome{result: group.HookContinue}
		case ctx.Err() == nil:
			out <- outcome{result: defaultResult(h.spec), message: truncateText(err.Error())}
		}
	}()
	return out
}

// unknownAction fails: a spec of newer coordinators requests an action that this agent does not
// support. The spec defines the consequence of the failure, as for every hook.
func unknownAction(context.Context, *openHook) error {
	return errors.New("this agent does not support the hook's action: it is older than the coordinators; roll out its newer image")
}

// callHTTP calls the workload on the CVM's loopback. A workload that does not
// answer is asked again until the hook's time is up; a wrong status is its answer.
func (s *step) callHTTP(ctx context.Context, h *openHook) error {
	action := h.spec.HTTP
	method := action.Method
	if method == "" {
		method = http.MethodPost
	}
	url := fmt.Sprintf("http://127.0.0.1:%d%s", action.Port, action.Path)
	tick := time.NewTicker(httpRetry)
	defer tick.Stop()
	for {
		status, err := s.callOnce(ctx, h, method, url)
		switch {
		case err == nil && expected(action.Expect, status):
			return nil
		case err == nil:
			return fmt.Errorf("%s %s: status %d", method, url, status)
		case !errors.Is(err, syscall.ECONNREFUSED):
			return err // it may have been carried out: never repeated blindly
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *step) callOnce(ctx context.Context, h *openHook, method, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, fmt.Errorf("hook %s: %w", h.spec.Name, err)
	}
	req.Header.Set("Cadre-Operation", s.order.Operation)
	req.Header.Set("Cadre-Attempt", strconv.FormatUint(uint64(s.order.Attempt), 10))
	req.Header.Set("Cadre-Hook", h.spec.Name)
	req.Header.Set("Cadre-Hook-Token", h.token)
	res, err := hookClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("hook %s: %w", h.spec.Name, err)
	}
	defer res.Body.Close() //nolint:errcheck // drained below
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return 0, fmt.Errorf("hook %s: %w", h.spec.Name, err)
	}
	return res.StatusCode, nil
}

var hookClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func expected(want, status int) bool {
	if want != 0 {
		return status == want
	}
	return status >= 200 && status < 300
}

// runCommand runs in the container of its service, once the container takes commands. Exit code 0
// is CONTINUE, any other end a failure.
func (s *step) runCommand(ctx context.Context, h *openHook) error {
	env := []string{
		"CADRE_OPERATION=" + s.order.Operation,
		"CADRE_VERB=" + string(s.order.Verb),
		"CADRE_ATTEMPT=" + strconv.FormatUint(uint64(s.order.Attempt), 10),
		"CADRE_HOOK=" + h.spec.Name,
		"CADRE_HOOK_TOKEN=" + h.token,
		"CADRE_SLOT=" + s.exec.cfg.Slot,
	}
	if !s.order.Deadline.IsZero() {
		env = append(env, "CADRE_DEADLINE="+strconv.FormatInt(s.order.Deadline.UnixMilli(), 10))
	}
	_, limit := hookTimes(h.spec)
	return s.exec.cfg.Commands.RunUntil(ctx, *h.spec.Exec, env, limit)
}

// callDriver does the named driver work at the hook's place in the order.
func (s *step) callDriver(ctx context.Context, h *openHook) error {
	switch do := h.spec.Driver.Do; do {
	case "transfer":
		return s.handOver(ctx)
	case "drain":
		return s.exec.cfg.Member.Driver().Drain(ctx)
	default:
		return fmt.Errorf("driver work %q is not known; use transfer or drain", do)
	}
}

func truncateText(text string) string {
	if len(text) > messageLimit {
		return text[:messageLimit] + "..."
	}
	return text
}

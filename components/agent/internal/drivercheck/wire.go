package drivercheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// Wire makes calls as the agent does, but with any body.
type Wire interface {
	// ask makes the call that command names.
	ask(ctx context.Context, command string, body []byte) (reply, error)
}

// class is the meaning of a status or an exit code.
type class string

const (
	okClass      class = "success"
	busyClass    class = "busy"
	unsafeClass  class = "unsafe"
	badClass     class = "refused as a bad request"
	anotherClass class = "failed"
)

// reply is the answer of an adapter.
type reply struct {
	class class
	// code is the status or the exit code.
	code int
	text []byte
}

func (r reply) String() string {
	return fmt.Sprintf("%d (%s) %q", r.code, r.class, adapter.Text(string(r.text[:min(len(r.text), 200)])))
}

// HTTPWire calls the adapter at a loopback address.
type HTTPWire struct{ Address string }

func (w HTTPWire) ask(ctx context.Context, command string, body []byte) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	method, path := http.MethodPost, map[string]string{
		adapter.CommandMember: adapter.PathMember, adapter.CommandTransfer: adapter.PathTransfer, adapter.CommandDrain: adapter.PathDrain,
		adapter.CommandUndrain: adapter.PathDrain, adapter.CommandSet: adapter.PathSet,
	}[command]
	if path == "" {
		path = "/v1/" + command
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.Address+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close() //nolint:errcheck // read as far as it counts
	text, err := io.ReadAll(io.LimitReader(res.Body, adapter.MaxBody+1))
	r := reply{code: res.StatusCode, text: text}
	switch {
	case r.code == http.StatusOK:
		r.class = okClass
	case r.code == http.StatusConflict:
		r.class = busyClass
	case r.code == http.StatusUnprocessableEntity:
		r.class = unsafeClass
	case r.code >= 400 && r.code < 500:
		r.class = badClass
	default:
		r.class = anotherClass
	}
	return r, err
}

// ExecWire runs the commands of a service.
type ExecWire struct {
	Service  string
	Commands driver.Commands
}

func (w ExecWire) ask(ctx context.Context, command string, body []byte) (reply, error) {
	text, code, err := w.Commands.Ask(ctx, group.ExecAction{Service: w.Service, Command: command}, body, time.Minute)
	r := reply{code: code, text: text}
	switch code {
	case 0:
		r.class = okClass
	case adapter.ExitBusy:
		r.class = busyClass
	case adapter.ExitUnsafe:
		r.class = unsafeClass
	case -1:
		return r, err
	default:
		r.class = badClass
	}
	return r, nil
}

// refusals are the checks of bad requests. None of these requests would do harm where it is taken.
func refusals() []check {
	skip := func(s *suite) string {
		switch {
		case s.Wire == nil:
			return "is no adapter"
		case s.Stops:
			return "hand_over is stop: the call transfer is not used"
		}
		return ""
	}
	transfer := func(s *suite, more string) []byte {
		return fmt.Appendf(nil, `{"expected_leader":%q,"candidates":[%q]%s}`, s.absent(), s.absent(), more)
	}
	refuse := func(command string, body func(s *suite) []byte) func(context.Context, *suite) (string, error) {
		return func(ctx context.Context, s *suite) (string, error) {
			said, err := s.Wire.ask(ctx, command, body(s))
			if err == nil && said.class != badClass {
				err = fmt.Errorf("want a refusal of the request itself, got %s", said)
			}
			if err != nil {
				return "", err
			}
			_, err = s.observe(ctx)
			return fmt.Sprintf("code %d", said.code), err
		}
	}
	const expected = "status 400 (an exit code other than 0, 65 and 75), no effect, and an adapter that answers afterwards"
	return []check{{
		name: "an unknown field is refused", expected: expected, skip: skip,
		fix: "refuse a request with a field that the contract does not have: a later agent may mean something by it",
		run: refuse(adapter.CommandTransfer, func(s *suite) []byte { return transfer(s, `,"cadre_check":true`) }),
	}, {
		name: "a request that is no JSON is refused", expected: expected, skip: skip,
		fix: "answer 400 when the body cannot be read",
		run: refuse(adapter.CommandTransfer, func(*suite) []byte { return []byte(`{"expected_leader":`) }),
	}, {
		name: "an oversized request is refused", expected: expected,
		fix: fmt.Sprintf("read at most %d bytes of a request, and answer 400 or 413 to a longer one", adapter.MaxBody),
		skip: func(s *suite) string {
			if _, exec := s.Wire.(ExecWire); exec {
				return "the agent bounds the input of a command"
			}
			return skip(s)
		},
		run: func(ctx context.Context, s *suite) (string, error) {
			said, err := s.Wire.ask(ctx, adapter.CommandTransfer, transfer(s, strings.Repeat(" ", 2*adapter.MaxBody)))
			if err == nil && said.class != badClass {
				return "", fmt.Errorf("want a refusal of the request itself, got %s", said)
			}
			// An adapter may also close the connection while the request is being sent.
			_, again := s.observe(ctx)
			return fmt.Sprintf("code %d", said.code), again
		},
	}, {
		name: "an unknown change of the set is refused", expected: expected,
		fix: "take the values add, promote and remove of the field do only",
		skip: func(s *suite) string {
			switch {
			case s.Wire == nil:
				return "is no adapter"
			case s.Set == group.SetNone:
				return "Cadre does not change this workload's set"
			}
			return ""
		},
		run: refuse(adapter.CommandSet, func(s *suite) []byte { return fmt.Appendf(nil, `{"do":"cadre-check","slot":%q}`, s.absent()) }),
	}, {
		name: "an unknown path is refused", expected: "status 404, or another of the 400s",
		fix: "answer 404 to each path that the contract does not have",
		skip: func(s *suite) string {
			if _, web := s.Wire.(HTTPWire); !web {
				return "is no HTTP adapter"
			}
			return ""
		},
		run: refuse("cadre-check", func(*suite) []byte { return []byte("{}") }),
	}}
}

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func roles() map[string]Role {
	return map[string]Role{
		"echo": func(_ context.Context, raw json.RawMessage) (Actor, error) {
			var prefix string
			if err := json.Unmarshal(raw, &prefix); err != nil {
				return Actor{}, err
			}
			return Actor{Methods: map[string]Method{
				"say":  Typed(func(_ context.Context, s string) (string, error) { return prefix + s, nil }),
				"fail": Typed(func(context.Context, string) (string, error) { return "", errors.New("broke") }),
				"lack": Typed(func(context.Context, string) (string, error) { return "", fmt.Errorf("that: %w", ErrUnavailable) }),
				"wait": Typed(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
				"exit": Typed(func(context.Context, string) (string, error) { os.Exit(3); return "", nil }),
			}}, nil
		},
		"lacking": func(context.Context, json.RawMessage) (Actor, error) {
			return Actor{}, fmt.Errorf("start: %w", ErrUnavailable)
		},
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, roles()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func begin(t *testing.T) *Process {
	t.Helper()
	p, err := Start(t.Context(), Here{}, "echo", "hello ", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	return p
}

func TestCallsAndErrorsTravel(t *testing.T) {
	p := begin(t)
	var got string
	if err := p.Call(t.Context(), "say", "you", &got); err != nil || got != "hello you" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := p.Call(t.Context(), "fail", "", nil); err == nil || !strings.Contains(err.Error(), "broke") || errors.Is(err, ErrUnavailable) {
		t.Errorf("failure: %v", err)
	}
	if err := p.Call(t.Context(), "lack", "", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("missing feature: %v", err)
	}
	if err := p.Call(t.Context(), "none", "", nil); err == nil {
		t.Error("a method that is not there gave no error")
	}
	if cpu, err := p.CPU(); err != nil || cpu <= 0 {
		t.Errorf("CPU time %v, %v", cpu, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRoleThatCannotStart(t *testing.T) {
	if _, err := Start(t.Context(), Here{}, "lacking", nil, os.Stderr); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := Start(t.Context(), Here{}, "no such role", nil, os.Stderr); err == nil {
		t.Error("no error")
	}
}

func TestStopEndsCallsUnderWay(t *testing.T) {
	p := begin(t)
	done := make(chan error, 1)
	go func() { done <- p.Call(t.Context(), "wait", "", nil) }()
	if err := p.Call(t.Context(), "say", "", nil); err != nil { // the call before it has been sent, or will fail
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the call ended well")
	}
}

func TestCrashEndsCalls(t *testing.T) {
	p := begin(t)
	if err := p.Call(t.Context(), "exit", "", nil); err == nil {
		t.Error("no error")
	}
	if err := p.Stop(); err == nil {
		t.Error("stop hid that the worker crashed")
	}
	q := begin(t)
	q.Kill()
	if err := q.Stop(); err != nil {
		t.Errorf("a worker that we killed: %v", err)
	}
}

package contain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/raced/synctest"
)

func crashes(value any) func() error {
	return func() error { panic(value) }
}

func TestAPanicIsAnErrorWithTheIDOfItsPlace(t *testing.T) {
	var text bytes.Buffer
	counts := map[string]int{}
	p := New(slog.New(slog.NewTextHandler(&text, nil)), func(part string) { counts[part]++ })
	var ids []string
	for range 3 {
		err := p.Do("call", crashes("secret value"))
		var crash *Error
		if !errors.As(err, &crash) || status.Code(err) != codes.Internal || !strings.Contains(err.Error(), crash.ID) || strings.Contains(err.Error(), "secret") {
			t.Fatalf("the error is %v", err)
		}
		ids = append(ids, crash.ID)
	}
	if ids[0] != ids[1] || ids[1] != ids[2] || counts["call"] != 3 {
		t.Errorf("ids %q, counts %v", ids, counts)
	}
	if n := strings.Count(text.String(), "stack="); n != 1 || !strings.Contains(text.String(), "crashes") || !strings.Contains(text.String(), ids[0]) {
		t.Errorf("the stack was logged %d times: %s", n, text.String())
	}
	if err := p.Do("call", func() error { return context.Canceled }); !errors.Is(err, context.Canceled) || counts["call"] != 3 {
		t.Errorf("an ordinary error became %v", err)
	}
}

func TestAPanicOfAGoroutineInsideComesToTheWorkThatStartedIt(t *testing.T) {
	count := 0
	p := New(slog.New(slog.DiscardHandler), func(string) { count++ })
	err := p.Do("pass", func() error {
		errs := make([]error, 2)
		var all sync.WaitGroup
		all.Go(func() { errs[0] = Call(crashes(errors.New("x"))) })
		all.Go(func() { errs[1] = Call(func() error { return nil }) })
		all.Wait()
		return errors.Join(errs...)
	})
	if _, is := errors.AsType[*Error](err); !is || count != 1 {
		t.Errorf("%v, counted %d times", err, count)
	}
}

func TestWorkThatPanicsStartsAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(slog.New(slog.DiscardHandler), func(string) {})
		began, tries := time.Now(), 0
		err := p.Keep(t.Context(), "duty", func(context.Context) error {
			if tries++; tries < 4 {
				return crashes(tries)()
			}
			return nil
		})
		if err != nil || tries != 4 || time.Since(began) != 7*time.Second {
			t.Errorf("%v after %d tries and %s", err, tries, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		if err := p.Keep(ctx, "duty", func(context.Context) error { return crashes(1)() }); err != nil {
			t.Errorf("work that was to end: %v", err)
		}
	})
}

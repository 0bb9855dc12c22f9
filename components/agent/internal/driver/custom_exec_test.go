package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// asked answers for the commands of a service.
type asked func(ctx context.Context, command string, request string) (answer string, code int, err error)

func (a asked) Ask(ctx context.Context, do group.ExecAction, request []byte, _ time.Duration) ([]byte, int, error) {
	answer, code, err := a(ctx, do.Service+"/"+do.Command, string(request))
	return []byte(answer), code, err
}

func customBy(t *testing.T, commands Commands) Driver {
	t.Helper()
	d, err := New(Config{Kind: group.WorkloadCustom, Self: "k-0", Commands: commands, Budget: time.Minute, Settings: map[string]string{"exec_service": "db", "set": "changes"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCommandsAreAnAdapter: each call is the command of its name, with the same JSON, and the exit code
// is the class of the failure.
func TestCommandsAreAnAdapter(t *testing.T) {
	var got []string
	leads := true
	d := customBy(t, asked(func(_ context.Context, command, request string) (string, int, error) {
		got = append(got, command+" "+request)
		switch command {
		case "db/member":
			if !leads {
				return `{"role":"follower","liveness":"alive","ready":true,"leader":"k-1","may_disrupt":true}`, 0, nil
			}
			return `{"role":"leader","liveness":"alive","ready":true,"leader":"k-0","may_disrupt":true}`, 0, nil
		case "db/transfer":
			leads = false
			return `{"moved":true,"leader":"k-1"}`, 0, nil
		case "db/undrain":
			return "", adapter.ExitUnsafe, errors.New("command db/undrain ended with code 65: no way back")
		case "db/set":
			return "", adapter.ExitBusy, errors.New("command db/set ended with code 75: a change runs")
		}
		return "", 0, nil
	}))
	if v, err := d.Observe(t.Context()); err != nil || v.Role != RoleLeader || !v.MayDisrupt || v.Liveness != LivenessAlive {
		t.Errorf("%+v, %v", v, err)
	}
	if moved, err := d.Transfer(t.Context(), TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}}); err != nil || moved.Leader != "k-1" {
		t.Errorf("%+v, %v", moved, err)
	}
	if err := d.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.CancelDrain(t.Context()); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "no way back") {
		t.Error(err)
	}
	if err := Change(t.Context(), d, group.SetChange{Do: group.SetRemove, Slot: "k-1"}); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "a change runs") {
		t.Error(err)
	}
	want := []string{
		"db/member {}", "db/member {}", `db/transfer {"expected_leader":"k-0","candidates":["k-1"]}`, "db/member {}",
		"db/drain {}", "db/undrain {}", `db/set {"do":"remove","slot":"k-1"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

// TestABadCommandIsBoundedAndNamed, and a command that ignores its time holds no observation up.
func TestABadCommandIsBoundedAndNamed(t *testing.T) {
	for want, answer := range map[string]asked{
		"the adapter: command db/member ended with code 3: no clue": func(context.Context, string, string) (string, int, error) {
			return "", 3, errors.New("command db/member ended with code 3: no clue")
		},
		"the adapter: service db takes no commands now": func(context.Context, string, string) (string, int, error) {
			return "", -1, errors.New("service db takes no commands now")
		},
		"has more than 65536 bytes": func(context.Context, string, string) (string, int, error) {
			return strings.Repeat(" ", adapter.MaxBody+1), 0, nil
		},
		"the adapter's answer is refused": func(context.Context, string, string) (string, int, error) { return "ok", 0, nil },
	} {
		v, err := customBy(t, answer).Observe(t.Context())
		assertUnobserved(t, v, err, want)
	}
	release := make(chan struct{})
	defer close(release)
	d := customBy(t, asked(func(context.Context, string, string) (string, int, error) { <-release; return "", 0, nil }))
	for i := range customCalls + 2 {
		want := "command db/member did not answer in time"
		if i >= customCalls {
			want = fmt.Sprintf("%d commands of the adapter in service db do not end", customCalls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		v, err := d.Observe(ctx)
		cancel()
		assertUnobserved(t, v, err, want)
	}
	if _, err := New(Config{Kind: group.WorkloadCustom, Self: "k-0", Settings: map[string]string{"exec_service": "db"}}); err == nil {
		t.Error("an adapter of commands without commands")
	}
}

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/exec/call"
)

// left are ways to stay behind. Each holds descriptor 9.
var left = map[string]string{
	"child":                  "sleep 600 &",
	"ignores SIGTERM":        "trap '' TERM; sleep 600 &",
	"session of its own":     "setsid sleep 600 &",
	"double fork":            "(setsid sh -c 'setsid sleep 600 & exit 0' &)",
	"many sessions":          "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'setsid sleep 600 & (setsid sleep 600 &) & sleep 600' & done",
	"fork bomb":              "bomb() { [ $1 -gt 0 ] || exec sleep 600; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 5 &",
	"fork bomb of sessions":  "cat > bomb <<'E'\nif [ $1 -gt 0 ]; then setsid sh bomb $(($1 - 1)) & setsid sh bomb $(($1 - 1)) & fi; exec sleep 600\nE\nsh bomb 5 &",
	"hops from fork to fork": "hop() { [ $1 -gt 0 ] || exec sleep 600; hop $(($1 - 1)) & exit 0; }; hop 200 &",
}

// TestHK04_NothingOfACommandOutlivesItsTime: no process of a command outlives the command's time,
// its caller, the agent, or its own exit, however it hides.
func TestHK04_NothingOfACommandOutlivesItsTime(t *testing.T) {
	for name, script := range left {
		for _, how := range []string{"time is up", "agent is gone", "exited", "reaper was killed"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				r := up(t)
				h := newHolder(t, r.dir)
				begin := "cd " + r.dir + "; exec 9>" + h.path + "; " + script + "\n echo begun >&9; "
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				limit, rest := soon, "sleep 600"
				want := call.Reply{End: call.TimedOut}
				switch how {
				case "time is up":
					limit = 300 * time.Millisecond
				case "exited":
					rest, want = "exit 3", call.Reply{End: call.Exited, Code: 3}
				case "reaper was killed":
					rest, want = "kill -9 $PPID; sleep 600", call.Reply{End: call.Signalled, Code: 9}
				}
				type result struct {
					reply call.Reply
					err   error
				}
				got := make(chan result, 1)
				go func() {
					reply, err := r.do(ctx, limit, begin+rest)
					got <- result{reply, err}
				}()
				gone := errors.New("gone")
				if how == "agent is gone" {
					h.begun(t)
					cancel(gone)
				}
				res := <-got
				if how == "agent is gone" {
					if !errors.Is(res.err, gone) {
						t.Errorf("err = %v", res.err)
					}
				} else if res.err != nil || res.reply.End != want.End || res.reply.Code != want.Code {
					t.Errorf("reply %+v, %v; want %+v", res.reply, res.err, want)
				}
				wait := time.Duration(0) // the reply means that no process is left
				if how == "reaper was killed" {
					wait = soon
				}
				h.free(t, wait+time.Second)
			})
		}
	}
}

// TestHK04_OutputNeitherHoldsNorFloods: a gigabyte is read, 64 KiB are kept.
func TestHK04_OutputNeitherHoldsNorFloods(t *testing.T) {
	r := up(t)
	reply, err := r.do(t.Context(), time.Hour, "head -c 1073741824 /dev/zero; head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero >&3; exit 5")
	if err != nil || reply.End != call.Exited || reply.Code != 5 || len(reply.Output) != call.OutputLimit || len(reply.Reason) > call.ReasonLimit {
		t.Errorf("ended %s %d with %d bytes of output and a reason of %d, %v", reply.End, reply.Code, len(reply.Output), len(reply.Reason), err)
	}
}

// TestHK08_AReasonIsOnePrintableLine, for any output of a command.
func TestHK08_AReasonIsOnePrintableLine(t *testing.T) {
	r := up(t)
	reply, err := r.do(t.Context(), soon, `printf 'not yet: \033[31mred\007\302\205 \342\200\256x \377\nsecond line' >&"$CADRE_REASON_FD"; echo said elsewhere; exit 1`)
	if want := `not yet: \x1b[31mred\a\u0085 \u202ex \xff`; err != nil || reply.Reason != want {
		t.Errorf("reason %q, %v; want %q", reply.Reason, err, want)
	}
	if string(reply.Output) != "said elsewhere\n" {
		t.Errorf("output %q", reply.Output)
	}
}

// TestHK07_ACommandHasTheWorkloadsPlaceAndNoDescriptors: a command has the workload's user, folder
// and variables, and of init's descriptors only the standard ones.
func TestHK07_ACommandHasTheWorkloadsPlaceAndNoDescriptors(t *testing.T) {
	secret, err := os.Create(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close() //nolint:errcheck // test
	r := newRig(t)
	r.files = []*os.File{secret, secret}
	r.ready()
	const look = `echo "dir $(pwd)"; echo "uid $(id -u)"; echo "slot $CADRE_SLOT"; echo "hook $CADRE_HOOK"; cat`
	r.start("ls /proc/self/fd >" + r.dir + "/workload; exec sleep 600")
	reply, err := r.do(t.Context(), soon, look)
	if want := []string{"dir " + r.dir, fmt.Sprintf("uid %d", os.Getuid()), "slot web-0", "hook h"}; err != nil || !slices.Equal(lines(string(reply.Output)), want) {
		t.Errorf("command has %q, %v; want %q", reply.Output, err, want)
	}
	// The last one is the folder that ls reads.
	reply, err = call.Do(t.Context(), r.commands, call.Request{Argv: []string{"ls", "/proc/self/fd"}, Time: soon})
	if err != nil || string(reply.Output) != "0\n1\n2\n3\n4\n" {
		t.Errorf("command has descriptors %q, %v", reply.Output, err)
	}
	r.await("the workload's own look", func() bool {
		data, _ := os.ReadFile(filepath.Join(r.dir, "workload"))
		return string(data) == "0\n1\n2\n3\n"
	})
}

// TestCommandsComeFromTheAgentAlone: other users are rejected, even with the socket at hand.
func TestCommandsComeFromTheAgentAlone(t *testing.T) {
	r := newRig(t)
	r.agentUID = os.Getuid() + 1
	r.ready()
	r.start("exec sleep 600")
	planted := filepath.Join(r.dir, "planted")
	if reply, err := r.do(t.Context(), soon, "touch "+planted); err == nil {
		t.Errorf("answered with %+v", reply)
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("the command was run")
	}
	info, err := os.Stat(filepath.Join(r.commands, call.SocketName))
	if err != nil || info.Mode().Perm()&^0o600 != 0 {
		t.Errorf("socket's mode %v, %v", info.Mode(), err)
	}
}

// TestLeftoversOfTheWorkloadAreItsOwn: commands end, daemons of the workload stay.
func TestLeftoversOfTheWorkloadAreItsOwn(t *testing.T) {
	r := newRig(t)
	r.ready()
	pid := filepath.Join(r.dir, "daemon")
	r.start("(setsid sh -c 'echo $$ > " + pid + ".new; mv " + pid + ".new " + pid + "; exec sleep 600' &); trap 'exit 0' TERM; while :; do sleep 0.05; done")
	r.await("the daemon", func() bool { _, err := os.Stat(pid); return err == nil })
	if reply, err := r.do(t.Context(), soon, "setsid sleep 600 & exit 0"); err != nil || reply.Code != 0 {
		t.Fatalf("%+v, %v", reply, err)
	}
	data, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var daemon int
	if _, err := fmt.Sscan(string(data), &daemon); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(daemon, 0); err != nil {
		t.Errorf("the workload's daemon is gone: %v", err)
	}
	_ = syscall.Kill(daemon, syscall.SIGKILL)
}

func TestHK03_WordsAreNeverTakenForSyntax(t *testing.T) {
	r := up(t)
	if _, err := r.do(t.Context(), soon, "exit 0"); err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(r.dir, "planted")
	hostile := []string{"$(touch " + planted + ")", "; touch " + planted, "-rf", "--", "$HOME", "*", "a b", "", "\n", "'\"\\", "${IFS}"}
	req := call.Request{Argv: append([]string{"sh", "-c", `for w; do printf '%s:%s|' "${#w}" "$w"; done`, "sh"}, hostile...), Time: soon}
	reply, err := call.Do(t.Context(), r.commands, req)
	want := ""
	for _, w := range hostile {
		want += fmt.Sprintf("%d:%s|", len(w), w)
	}
	if err != nil || string(reply.Output) != want {
		t.Errorf("the program got %q, %v; want %q", reply.Output, err, want)
	}
	for _, program := range hostile {
		reply, err := call.Do(t.Context(), r.commands, call.Request{Argv: []string{program, planted}, Time: soon})
		if err == nil && reply.End != call.NotStarted {
			t.Errorf("%q was run: %+v", program, reply)
		}
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("a word was carried out")
	}
}

// TestACommandAnswers: it reads its input to the end, and the answer has its own descriptor. A command
// that answers nothing, reads nothing, or floods does no harm.
func TestACommandAnswers(t *testing.T) {
	r := up(t)
	if _, err := r.do(t.Context(), soon, "exit 0"); err != nil {
		t.Fatal(err)
	}
	input := []byte(strings.Repeat("x", call.InputLimit-5) + "\x00\n$()")
	for script, want := range map[string]string{
		`cat >&"$CADRE_ANSWER_FD"; echo output; echo why >&"$CADRE_REASON_FD"; exit 75`: string(input),
		`echo output; echo why >&3; exec 0<&-; exit 75`:                                 "",
		`echo output; echo why >&3; head -c 1000000 /dev/zero >&4; exit 75`:             strings.Repeat("\x00", call.AnswerLimit+1),
		`echo output; echo why >&3; echo part >&4; sleep 600 & exit 75`:                 "part\n",
	} {
		req := call.Request{Argv: []string{"sh", "-c", script}, Time: soon, Answer: true, Input: input}
		reply, err := call.Do(t.Context(), r.commands, req)
		if err != nil || reply.End != call.Exited || reply.Code != 75 || string(reply.Output) != "output\n" || reply.Reason != "why" || string(reply.Answer) != want {
			t.Errorf("%s: %s %d %q, reason %q, %d bytes of answer, %v", script, reply.End, reply.Code, reply.Output, reply.Reason, len(reply.Answer), err)
		}
	}
	// Other commands have neither.
	reply, err := r.do(t.Context(), soon, `echo "fd ${CADRE_ANSWER_FD-none}"; cat; ls /proc/self/fd | wc -l`)
	if err != nil || !strings.HasPrefix(string(reply.Output), "fd none\n") || len(reply.Answer) > 0 {
		t.Errorf("%q, %v", reply.Output, err)
	}
	// The descriptors of the caller's side stay there: 0 to 4, and that of ls.
	reply, err = call.Do(t.Context(), r.commands, call.Request{Argv: []string{"sh", "-c", "ls /proc/self/fd"}, Time: soon, Answer: true})
	if err != nil || len(strings.Fields(string(reply.Output))) != 6 {
		t.Errorf("descriptors %q, %v", reply.Output, err)
	}
}

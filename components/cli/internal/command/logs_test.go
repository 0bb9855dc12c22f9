package command

import (
	"strings"
	"testing"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func TestLogsAreShown(t *testing.T) {
	b := newBench(t)
	b.SetLog("postgres-0/patroni", &apiv1.TailLogsResponse{Data: []byte("one\n")}, &apiv1.TailLogsResponse{Data: []byte("two\x1b[2J\n"), Dropped: 7})
	b.SetLog("coordinator-0/", &apiv1.TailLogsResponse{Data: []byte("own\n")})
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"postgres-0", "patroni"}, ExitOK, "one\n... 7 bytes dropped\ntwo\\x1b[2J\n"},
		{[]string{"coordinator-0"}, ExitOK, "own\n"},
		{[]string{"postgres-0", "web"}, ExitRefused, `"web" is none of those with open logs`},
		{[]string{"postgres-0", "patroni", "--tail", "-1"}, ExitUsage, "--tail -1"},
		{[]string{"postgres-0", "patroni", "-o", "json"}, ExitUsage, "a log is text"},
		{nil, ExitUsage, ""},
	} {
		if code, out := b.run(append([]string{"logs"}, tc.args...)...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, out)
		}
	}
}

// A coordinator that is not the right one names the right one, once.
func TestLogsOfAnotherCoordinator(t *testing.T) {
	b := newBench(t)
	b.SetLog("coordinator-1/", &apiv1.TailLogsResponse{OtherInstance: "0123"})
	if code, out := b.run("logs", "coordinator-1"); code != ExitError || !strings.Contains(out, "do not agree") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestACommandsExitCodeIsCadres(t *testing.T) {
	b := newBench(t)
	b.SetCommand("postgres-0/patroni/vacuum", &apiv1.RunCommandResponse{Output: []byte("done\n")}, &apiv1.RunCommandResponse{End: &apiv1.RunCommandEnd{}})
	b.SetCommand("postgres-0/patroni/broken", &apiv1.RunCommandResponse{Output: []byte("no")}, &apiv1.RunCommandResponse{End: &apiv1.RunCommandEnd{Code: 42, Dropped: 9}})
	b.SetCommand("postgres-0/patroni/lost", &apiv1.RunCommandResponse{Output: []byte("begun\n")})
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"postgres-0", "patroni", "vacuum"}, ExitOK, "done\n"},
		{[]string{"postgres-0", "patroni", "broken"}, 42, "no\n... 9 bytes dropped\ncadre: command broken in patroni of postgres-0 ended with code 42\n"},
		{[]string{"postgres-0", "patroni", "lost"}, ExitError, "has no end"},
		{[]string{"postgres-0", "patroni", "rm"}, ExitRefused, `EXEC_FORBIDDEN: service patroni declares no command "rm"`},
		{[]string{"postgres-0", "patroni", "vacuum", "--timeout", "0s"}, ExitUsage, "--timeout"},
		{[]string{"postgres-0", "patroni"}, ExitUsage, ""},
	} {
		if code, out := b.run(append([]string{"instance", "run"}, tc.args...)...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, out)
		}
	}
}

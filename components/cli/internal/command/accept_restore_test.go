package command

import (
	"strings"
	"testing"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// restored is a cluster whose records went back from state 58 to 41 within one Term.
func restored() *apiv1.RecoverResponse {
	return &apiv1.RecoverResponse{
		Term: 3, State: 41, SeenTerm: 3, SeenState: 41, Agents: 3, MostTerm: 3, MostState: 58, AnyTerm: 3, AnyState: 59,
		Halted: "EPOCH_REGRESSION: the records went back: lease/state is 41, but 58 was seen", RaisedTerm: 3, RaisedState: 59,
	}
}

func TestAcceptRestorePictures(t *testing.T) {
	for name, c := range map[string]struct {
		state *apiv1.RecoverResponse
		args  []string
	}{
		"accept_restore_halted":  {restored(), nil},
		"accept_restore_done":    {restored(), []string{"--reason", "backup of Monday", "--yes"}},
		"accept_restore_nothing": {&apiv1.RecoverResponse{Term: 3, State: 41, SeenTerm: 3, SeenState: 41}, nil},
		"accept_restore_help":    {nil, []string{"--help"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.SetRecovery(c.state)
			code, out := b.run(append([]string{"cluster", "accept-restore"}, c.args...)...)
			if code != ExitOK {
				t.Errorf("exit %d", code)
			}
			golden(t, name, out)
		})
	}
}

func TestAcceptRestoreNeedsAReason(t *testing.T) {
	b := newBench(t)
	b.SetRecovery(restored())
	if code, out := b.run("cluster", "accept-restore", "--yes"); code != ExitUsage || !strings.Contains(out, "--reason is missing") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := b.run("cluster", "accept-restore", "-o", "json"); code != ExitOK || !strings.Contains(out, `"state": 58`) || !strings.Contains(out, `"done": false`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// newer is a configuration with additions of a future coordinator.
func newer(t *testing.T, c group.AgentConfig, add map[string]any) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(config(t, c), &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range add {
		fields[name] = value
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestANewerCoordinatorsConfigurationDoesNotStopAnAgent: the agent ignores unknown fields, except
// mandatory ones. A hook with unknown work fails, and the spec defines the consequence.
func TestANewerCoordinatorsConfigurationDoesNotStopAnAgent(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	plain := group.AgentConfig{Workload: group.Workload{Kind: "none"}, Meta: map[string]string{"color": "blue"}}
	c.Order(&controlv1.Desired{Version: 1, Term: 1, ConfigJson: newer(t, plain, map[string]any{
		"weather":        map[string]any{"tomorrow": "sun"},
		"lifecycle_hook": []any{map[string]any{"name": "poem", "transition": "PRE_TERMINATE", "recite": map[string]any{"verses": 4}, "default_result": "CONTINUE", "mood": "calm"}},
	}), Operation: drain("op-1")})
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "the first order of newer coordinators is obeyed", func() bool {
		return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE && len(c.Last().GetFaults()) == 0
	})

	plain.Meta["color"] = "red"
	c.Order(&controlv1.Desired{Version: 2, Term: 1, ConfigJson: newer(t, plain, map[string]any{
		"lifecycle_hook": []any{map[string]any{"name": "poem", "transition": "PRE_TERMINATE", "recite": map[string]any{"verses": 4}, "default_result": "ABANDON"}},
	}), Operation: drain("op-2")})
	agenttest.Eventually(t, soon, "a hook that it does not know has failed", func() bool {
		s := step(c.Last(), "op-2")
		return s.GetState() == controlv1.StepState_STEP_STATE_ABORTED && strings.Contains(s.GetMessage(), "older than the coordinators")
	})

	c.Order(&controlv1.Desired{Version: 3, Term: 1, ConfigJson: newer(t, plain, map[string]any{"lifecycle_hook": nil, "must_understand": []string{"weather.storm"}}), Operation: drain("op-3")})
	agenttest.Eventually(t, soon, "a mandatory unknown field is a fault, and the order is obeyed as before", func() bool {
		r := c.Last()
		return step(r, "op-3").GetState() == controlv1.StepState_STEP_STATE_ABORTED && len(r.GetFaults()) == 1 && strings.Contains(r.GetFaults()[0], "weather.storm")
	})
	c.Order(&controlv1.Desired{Version: 4, Term: 1, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}}), Operation: drain("op-4")})
	agenttest.Eventually(t, soon, "a configuration that it understands ends the fault", func() bool {
		return step(c.Last(), "op-4").GetState() == controlv1.StepState_STEP_STATE_DONE && len(c.Last().GetFaults()) == 0
	})
}

// TestLeadersClocksDoNotStopAnAgent: one leader's clock is an hour behind, the next one's an hour
// ahead. The agent obeys the order once, within its time by either clock.
func TestLeadersClocksDoNotStopAnAgent(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	hooked := config(t, group.AgentConfig{
		Workload:       group.Workload{Kind: "none"},
		LifecycleHooks: []group.LifecycleHook{{Name: "flush", Transition: group.PreTerminate, Wait: &group.WaitAction{}}},
	})
	by := func(skew time.Duration) *controlv1.OperationOrder {
		o := drain("op-1")
		o.Deadline, o.Limit = timestamppb.New(time.Now().Add(skew)), durationpb.New(time.Minute)
		return o
	}
	c.Order(&controlv1.Desired{Version: 1, Term: 1, State: 1, ConfigJson: hooked, Operation: by(-time.Hour)})
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "the drain runs", func() bool { return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_RUNNING })
	c.Order(&controlv1.Desired{Version: 2, Term: 2, State: 2, ConfigJson: hooked, Operation: by(time.Hour)})
	agenttest.Eventually(t, soon, "the next leader's word", func() bool { return c.Last().GetDesiredVersion() == 2 })
	completeHook(t, a, "flush", "CONTINUE")
	done := func() bool { return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE }
	agenttest.Eventually(t, soon, "the drain is done", done)
	at := step(c.Last(), "op-1").GetAt().AsTime()
	c.Order(&controlv1.Desired{Version: 3, Term: 3, State: 3, ConfigJson: hooked, Operation: by(-time.Hour)})
	agenttest.Eventually(t, soon, "the first leader's word again", func() bool { return c.Last().GetDesiredVersion() == 3 })
	if s := step(c.Last(), "op-1"); !done() || !s.GetAt().AsTime().Equal(at) {
		t.Errorf("it was carried out again: %v, was at %s", s, at)
	}
}

package platformtest

import (
	"errors"
	"slices"

	"cadre.dev/platform"
)

// lostNode: a node without an answer is no platform without an answer. The CVMs of the others are
// listed and changed; its own are unknown, never gone; a create waits, since the name may be there, unless the
// caller knows that it is not. A new app waits, since its id may be there.
func (s *suite) lostNode() {
	if s.Lose == nil {
		s.Skip("this target has no node to lose")
	}
	nodes, err := s.p.Nodes(s.Context())
	if err != nil || len(nodes) < 2 {
		s.Fatalf("nodes = %+v, %v, want at least two", nodes, err)
	}
	kept, lost := nodes[0].ID, nodes[1].ID
	p := s.provision(0)
	req := platform.CreateRequest{Name: "contract-kept", Provisioned: p, Template: s.Template(0), Node: kept}
	if _, err := s.p.Create(s.Context(), req); err != nil {
		s.Fatalf("create on node %s: %v", kept, err)
	}
	here := s.awaitName(req.Name)
	req.Name, req.Node, req.AppID = "contract-lost", lost, here.AppID
	if _, err := s.p.Create(s.Context(), req); err != nil {
		s.Fatalf("create on node %s: %v", lost, err)
	}
	there := s.awaitName(req.Name)
	if here.Node != kept || there.Node != lost {
		s.Fatalf("the cvms are on nodes %q and %q, asked for %q and %q", here.Node, there.Node, kept, lost)
	}

	back := s.Lose(lost)
	for _, app := range []string{"", here.AppID} {
		list, err := s.p.List(s.Context(), app)
		var missing *platform.Unanswered
		if !errors.As(err, &missing) || len(missing.Nodes) != 1 || missing.Nodes[0].Node != lost {
			s.Errorf("list of app %q without node %s: %v, want it unanswered", app, lost, err)
		}
		has := func(vm platform.Instance) bool {
			return slices.ContainsFunc(list, func(i platform.Instance) bool { return i.VMUUID == vm.VMUUID })
		}
		if !has(here) || has(there) {
			s.Errorf("list of app %q without node %s = %+v, want the cvm of node %s alone", app, lost, list, kept)
		}
	}
	if _, err := s.p.Describe(s.Context(), there.VMUUID); err == nil || errors.Is(err, platform.ErrNotFound) {
		s.Errorf("describe of a cvm on the lost node: %v, want an error that is not its absence", err)
	}
	if err := s.p.Delete(s.Context(), there.VMUUID); err == nil {
		s.Error("delete of a cvm on the lost node is no success")
	}
	if _, err := s.p.Stop(s.Context(), there.VMUUID); !errors.Is(err, platform.ErrBusy) {
		s.Errorf("stop of a cvm on the lost node: %v, want ErrBusy", err)
	}
	req.Name, req.Node = "contract-third", kept
	if _, err := s.p.Create(s.Context(), req); !errors.Is(err, platform.ErrBusy) {
		s.Errorf("create while node %s may have the name: %v, want ErrBusy", lost, err)
	}
	fresh := req
	fresh.NotOn, fresh.AppID = []string{lost}, ""
	if _, err := s.p.Create(s.Context(), fresh); !errors.Is(err, platform.ErrBusy) {
		s.Errorf("create of a new app while node %s may have its id: %v, want ErrBusy", lost, err)
	}
	req.NotOn = []string{kept}
	if _, err := s.p.Create(s.Context(), req); !errors.Is(err, platform.ErrBusy) {
		s.Errorf("create while node %s may have the name, and node %s has not: %v, want ErrBusy", lost, kept, err)
	}
	req.NotOn, req.Node = []string{lost}, lost
	if _, err := s.p.Create(s.Context(), req); !errors.Is(err, platform.ErrBusy) {
		s.Errorf("create on node %s, which does not answer: %v, want ErrBusy", lost, err)
	}
	req.Node = kept
	third, err := s.p.Create(s.Context(), req)
	if err != nil {
		s.Fatalf("create while node %s is known to lack the name: %v", lost, err)
	}
	s.await(third.VMUUID, "the first start", platform.Instance.Running)
	if _, err := s.p.Restart(s.Context(), here.VMUUID); err != nil {
		s.Errorf("restart on node %s: %v", kept, err)
	}
	s.await(here.VMUUID, "the restart on the node that answers", platform.Instance.Running)

	back()
	s.poll("every node answers", func() (bool, string) {
		list, err := s.p.List(s.Context(), here.AppID)
		return err == nil && len(list) == 3, errString(err)
	})
	if still := s.describe(there.VMUUID); !still.Running() {
		s.Errorf("the cvm on the node that was lost is %+v, want it as before", still)
	}
	s.remove(third)
	s.remove(there)
	s.remove(here)
}

func errString(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

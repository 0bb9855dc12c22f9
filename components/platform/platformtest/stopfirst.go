package platformtest

import (
	"errors"

	"cadre.dev/core/group"
	"cadre.dev/platform"
)

func stopped(i platform.Instance) bool { return i.Status == "stopped" && i.StaysDown() }

// down stops a CVM whose platform changes a stopped one only.
func (s *suite) down(made platform.Instance) {
	s.Helper()
	if !s.p.Habits().StopFirst {
		return
	}
	if _, err := s.p.Stop(s.Context(), made.VMUUID); err != nil {
		s.Fatalf("stop %s before a change: %v", made.Name, err)
	}
	s.await(made.VMUUID, made.Name+" stopped", stopped)
}

// up starts a CVM that down stopped.
func (s *suite) up(made platform.Instance) {
	s.Helper()
	if !s.p.Habits().StopFirst {
		return
	}
	if _, err := s.p.Start(s.Context(), made.VMUUID); err != nil {
		s.Fatalf("start %s after a change: %v", made.Name, err)
	}
	s.await(made.VMUUID, made.Name+" running", platform.Instance.Running)
}

// rests reports a CVM between two changes: stopped where changes want that, else running.
func (s *suite) rests(i platform.Instance) bool {
	if s.p.Habits().StopFirst {
		return stopped(i)
	}
	return i.Running()
}

// stopFirst: where a change takes effect at the next start, a CVM that runs is not changed, and one
// Update of a stopped one takes document, env and shape together, starts nothing, and keeps the
// identity. The CVM stays stopped until it is started.
func (s *suite) stopFirst() {
	if !s.p.Habits().StopFirst {
		s.Skip("this platform changes a running cvm")
	}
	made := s.create("contract-stop-first")
	image, size := s.other(made)
	for _, change := range s.changes(made) {
		if _, err := change.to(1); !errors.Is(err, platform.ErrBusy) {
			s.Errorf("%s of a running cvm: %v, want ErrBusy", change.name, err)
		}
		if now := s.describe(made.VMUUID); !now.Running() || !change.at(now, 0) {
			s.Errorf("%s of a running cvm had an effect: %+v", change.name, now)
		}
	}
	t := s.Template(1, "CADRE_CONTRACT")
	t.Env = map[string]string{"CADRE_CONTRACT": "1"}
	p, err := s.p.Provision(s.Context(), made.VMUUID, t)
	if err != nil {
		s.Fatalf("provision: %v", err)
	}
	s.down(made)
	if got, err := s.p.Stop(s.Context(), made.VMUUID); err != nil || !got.NoChange {
		s.Errorf("stop of a stopped cvm = %+v, %v, want no change", got, err)
	}
	got, err := s.p.Update(s.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: p.ComposeHash, EnvKey: p.EnvKey, KMS: p.KMS, Env: t.Env,
		Shape: platform.Shape{InstanceType: size, DiskGB: made.DiskGB + 10, OSImage: image}})
	if err != nil || !got.OSImage {
		s.Fatalf("update of everything = %+v, %v", got, err)
	}
	check := func(when string, i platform.Instance) {
		s.sameIdentity(when, made, i)
		if i.ComposeHash != p.ComposeHash || i.InstanceType != size || i.DiskGB != made.DiskGB+10 || !group.SameOSImage(i.OSImage, image) {
			s.Errorf("%s: %+v, want %s, %s, %d GB, %s", when, i, p.ComposeHash, size, made.DiskGB+10, image)
		}
	}
	now := s.describe(made.VMUUID)
	check("after the update", now)
	if !stopped(now) {
		s.Errorf("the update started the cvm: %+v", now)
	}
	s.up(made)
	check("after the start", s.describe(made.VMUUID))
	if got, err := s.p.Start(s.Context(), made.VMUUID); err != nil || !got.NoChange {
		s.Errorf("start of a running cvm = %+v, %v, want no change", got, err)
	}
	changes := s.changes(made)
	if err := s.p.Delete(s.Context(), made.VMUUID); err != nil {
		s.Fatalf("delete: %v", err)
	}
	for _, change := range changes {
		if _, err := change.to(0); !errors.Is(err, platform.ErrBusy) && !errors.Is(err, platform.ErrNotFound) {
			s.Errorf("%s during the deletion: %v, want ErrBusy or ErrNotFound", change.name, err)
		}
	}
	s.gone(made)
}

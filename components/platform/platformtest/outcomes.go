package platformtest

import (
	"errors"

	"cadre.dev/platform"
)

// needFaults skips a case on targets that cannot fail on demand.
func (s *suite) needFaults() {
	s.Helper()
	if s.Inject == nil {
		s.Skip("this target injects no faults")
	}
}

// refused: answers that prove that nothing happened are ErrRefused, of the right sort.
func (s *suite) refused() {
	s.needFaults()
	made := s.create("contract-refused")
	defer s.remove(made)
	for _, change := range s.changes(made) {
		for _, c := range []struct {
			mode Mode
			also error
		}{{Refuse, nil}, {Busy, platform.ErrBusy}, {Throttle, platform.ErrThrottled}} {
			s.Inject(Fault{Method: "PATCH", Path: change.path, Mode: c.mode})
			_, err := change.to(1)
			if !errors.Is(err, platform.ErrRefused) || (c.also != nil && !errors.Is(err, c.also)) {
				s.Errorf("%s under fault %s: %v, want ErrRefused and %v", change.name, c.mode, err, c.also)
			}
			if c.also == nil && (errors.Is(err, platform.ErrBusy) || errors.Is(err, platform.ErrThrottled)) {
				s.Errorf("%s under fault %s: %v, want a refusal that is not of the moment", change.name, c.mode, err)
			}
			if still := s.describe(made.VMUUID); !change.at(still, 0) || !still.Running() {
				s.Errorf("a refused %s (%s) had an effect: %+v", change.name, c.mode, still)
			}
		}
	}
}

// unknown: a lost answer is no verdict, and the driver does not ask twice.
func (s *suite) unknown() {
	s.needFaults()
	made := s.create("contract-unknown")
	defer s.remove(made)
	for _, change := range s.changes(made) {
		for _, mode := range []Mode{ErrorBefore, ResetBefore} {
			s.Inject(Fault{Method: "PATCH", Path: change.path, Mode: mode})
			_, err := change.to(1)
			if err == nil || errors.Is(err, platform.ErrRefused) {
				s.Errorf("%s under fault %s: %v, want an unknown outcome", change.name, mode, err)
			}
			// A driver that asked twice would have got through.
			if still := s.describe(made.VMUUID); !change.at(still, 0) {
				s.Errorf("after fault %s the %s was made: the driver repeated it", mode, change.name)
			}
		}
		for n, mode := range []Mode{ErrorAfter, ResetAfter} {
			want := 1 - n // there, and back
			s.Inject(Fault{Method: "PATCH", Path: change.path, Mode: mode})
			_, err := change.to(want)
			if err == nil || errors.Is(err, platform.ErrRefused) {
				s.Errorf("%s under fault %s: %v, want an unknown outcome", change.name, mode, err)
			}
			s.await(made.VMUUID, "the "+change.name+" that took effect", func(i platform.Instance) bool {
				return i.Running() && change.at(i, want)
			})
		}
	}
	s.Inject(Fault{Method: "DELETE", Path: "/cvms/", Mode: ResetBefore})
	if err := s.p.Delete(s.Context(), made.VMUUID); err == nil || errors.Is(err, platform.ErrRefused) {
		s.Errorf("delete without an answer: %v, want an unknown outcome", err)
	}
}

// reads: one bad answer does not fail a read.
func (s *suite) reads() {
	s.needFaults()
	made := s.create("contract-reads")
	defer s.remove(made)
	for _, mode := range []Mode{ErrorBefore, ResetBefore, Throttle} {
		s.Inject(Fault{Method: "GET", Path: "/cvms$", Mode: mode})
		if list, err := s.p.List(s.Context(), made.AppID); err != nil || len(list) != 1 {
			s.Errorf("list under one fault %s = %d cvms, %v, want 1", mode, len(list), err)
		}
	}
}

// failedList: no answer is an error and never an empty list (R11).
func (s *suite) failedList() {
	if s.Unreachable != nil {
		for _, app := range []string{"", "00112233445566778899aabbccddeeff00112233"} {
			if list, err := s.Unreachable.List(s.Context(), app); err == nil {
				s.Errorf("list of app %q of an unreachable platform = %v without an error", app, list)
			}
		}
	}
	if s.Inject == nil {
		return
	}
	s.Inject(Fault{Method: "GET", Path: "/cvms", Mode: Refuse})
	if list, err := s.p.List(s.Context(), ""); err == nil {
		s.Errorf("refused list = %v without an error", list)
	}
}

// incompatible: the passing refusal of concurrent creates is waited out.
func (s *suite) incompatible() {
	s.needFaults()
	p := s.provision(0)
	s.Inject(Fault{Method: "POST", Path: "/cvms$", Mode: Incompatible})
	if _, err := s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-incompatible", Provisioned: p, Template: s.Template(0)}); err != nil {
		s.Fatalf("create: %v", err)
	}
	made := s.awaitName("contract-incompatible")
	if n := s.count("contract-incompatible"); n != 1 {
		s.Errorf("%d cvms, want 1", n)
	}
	s.remove(made)
}

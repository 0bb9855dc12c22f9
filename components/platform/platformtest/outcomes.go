package platformtest

import (
	"errors"
	"slices"

	"cadre.dev/platform"
)

// needFaults skips a case on targets that cannot fail on demand.
func (s *suite) needFaults() {
	s.Helper()
	if s.Inject == nil {
		s.Skip("this target injects no faults")
	}
}

// can reports whether the target takes such a fault at a call of the driver.
func (s *suite) can(c Call, vmUUID string, m Mode) bool {
	method, path := s.route(c, vmUUID)
	return s.Inject != nil && method+path != "" && (s.Modes == nil || slices.Contains(s.Modes, m))
}

func (s *suite) route(c Call, vmUUID string) (method, path string) {
	if s.Route == nil {
		return phalaRoute(c, vmUUID)
	}
	return s.Route(c, vmUUID)
}

// inject arms a fault at the next such call.
func (s *suite) inject(c Call, vmUUID string, m Mode) {
	s.Helper()
	if !s.can(c, vmUUID, m) {
		s.Fatalf("the target takes no fault %s at %q", m, c)
	}
	method, path := s.route(c, vmUUID)
	s.Inject(Fault{Method: method, Path: path, Mode: m})
}

// refused: answers that prove that nothing happened are ErrRefused, of the right sort.
func (s *suite) refused() {
	s.needFaults()
	made := s.create("contract-refused")
	defer s.remove(made)
	changes := s.changes(made)
	s.down(made)
	for _, change := range changes {
		for _, c := range []struct {
			mode Mode
			also error
		}{{Refuse, nil}, {Busy, platform.ErrBusy}, {Throttle, platform.ErrThrottled}} {
			if !s.can(change.call, made.VMUUID, c.mode) {
				continue
			}
			s.inject(change.call, made.VMUUID, c.mode)
			_, err := change.to(1)
			if !errors.Is(err, platform.ErrRefused) || (c.also != nil && !errors.Is(err, c.also)) {
				s.Errorf("%s under fault %s: %v, want ErrRefused and %v", change.name, c.mode, err, c.also)
			}
			if c.also == nil && (errors.Is(err, platform.ErrBusy) || errors.Is(err, platform.ErrThrottled)) {
				s.Errorf("%s under fault %s: %v, want a refusal that is not of the moment", change.name, c.mode, err)
			}
			if still := s.describe(made.VMUUID); !change.at(still, 0) || !s.rests(still) {
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
	changes := s.changes(made)
	s.down(made)
	for _, change := range changes {
		for _, mode := range []Mode{ErrorBefore, ResetBefore} {
			s.inject(change.call, made.VMUUID, mode)
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
			s.inject(change.call, made.VMUUID, mode)
			_, err := change.to(want)
			if err == nil || errors.Is(err, platform.ErrRefused) {
				s.Errorf("%s under fault %s: %v, want an unknown outcome", change.name, mode, err)
			}
			s.await(made.VMUUID, "the "+change.name+" that took effect", func(i platform.Instance) bool {
				return s.rests(i) && change.at(i, want)
			})
		}
	}
	s.inject(CallDelete, made.VMUUID, ResetBefore)
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
		s.inject(CallList, "", mode)
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
	s.inject(CallListAll, "", Refuse)
	if list, err := s.p.List(s.Context(), ""); err == nil {
		s.Errorf("refused list = %v without an error", list)
	}
}

// incompatible: the passing refusal of concurrent creates is waited out.
func (s *suite) incompatible() {
	s.needFaults()
	if !s.can(CallCreate, "", Incompatible) {
		s.Skip("this target takes concurrent creates")
	}
	p := s.provision(0)
	s.inject(CallCreate, "", Incompatible)
	if _, err := s.p.Create(s.Context(), platform.CreateRequest{Name: "contract-incompatible", Provisioned: p, Template: s.Template(0)}); err != nil {
		s.Fatalf("create: %v", err)
	}
	made := s.awaitName("contract-incompatible")
	if n := s.count("contract-incompatible"); n != 1 {
		s.Errorf("%d cvms, want 1", n)
	}
	s.remove(made)
}

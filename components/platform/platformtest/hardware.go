package platformtest

import (
	"errors"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// change is one sort of update in place of one CVM, between state 0, in which it was
// made, and state 1.
type change struct {
	name string
	call Call
	to   func(state int) (platform.Accepted, error)
	at   func(i platform.Instance, state int) bool
}

// changes are all sorts, for a CVM as create makes it.
func (s *suite) changes(made platform.Instance) []change {
	s.Helper()
	next, err := s.p.Provision(s.Context(), made.VMUUID, s.Template(1))
	if err != nil {
		s.Fatalf("provision: %v", err)
	}
	hashes := [2]string{made.ComposeHash, next.ComposeHash}
	return append([]change{{
		name: "update", call: CallUpdate,
		to: func(state int) (platform.Accepted, error) {
			return s.p.Update(s.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: hashes[state]})
		},
		at: func(i platform.Instance, state int) bool { return i.ComposeHash == hashes[state] },
	}}, s.hardwareChanges(made)...)
}

func (s *suite) hardwareChanges(made platform.Instance) []change {
	s.Helper()
	image, size := s.other(made)
	images, sizes := [2]string{made.OSImage, image}, [2]string{made.InstanceType, size}
	changes := []change{{
		name: "set os image", call: CallOSImage,
		to: func(state int) (platform.Accepted, error) {
			return s.p.SetOSImage(s.Context(), made.VMUUID, images[state])
		},
		at: func(i platform.Instance, state int) bool { return group.SameOSImage(i.OSImage, images[state]) },
	}, {
		name: "resize", call: CallResize,
		to: func(state int) (platform.Accepted, error) {
			return s.p.Resize(s.Context(), made.VMUUID, platform.Shape{InstanceType: sizes[state]})
		},
		at: func(i platform.Instance, state int) bool { return i.InstanceType == sizes[state] },
	}}
	if !s.Unified {
		return changes
	}
	return append(changes, change{
		name: "image and size", call: CallBoth,
		to: func(state int) (platform.Accepted, error) {
			return s.p.Resize(s.Context(), made.VMUUID, platform.Shape{InstanceType: sizes[state], OSImage: images[state]})
		},
		at: func(i platform.Instance, state int) bool {
			return i.InstanceType == sizes[state] && group.SameOSImage(i.OSImage, images[state])
		},
	})
}

// together: image, type and disk in one call, or the call that takes them without the image.
func (s *suite) together() {
	made := s.create("contract-together")
	defer s.remove(made)
	image, size := s.other(made)
	s.down(made)
	got, err := s.p.Resize(s.Context(), made.VMUUID, platform.Shape{InstanceType: size, DiskGB: made.DiskGB + 10, OSImage: image})
	s.up(made)
	if err != nil || got.OSImage != s.Unified {
		s.Fatalf("image, type and disk at once: %+v, %v, want the image with them: %v", got, err, s.Unified)
	}
	now := s.await(made.VMUUID, "type and disk", func(i platform.Instance) bool {
		return i.Running() && i.InstanceType == size && i.DiskGB == made.DiskGB+10
	})
	s.sameIdentity("image, type and disk at once", made, now)
	if group.SameOSImage(now.OSImage, image) != s.Unified {
		s.Errorf("the image is %s after a call that says it changed it: %v", now.OSImage, s.Unified)
	}
}

func (s *suite) offer() platform.Offer {
	s.Helper()
	offer, err := s.p.Offer(s.Context())
	if err != nil {
		s.Fatalf("offer: %v", err)
	}
	return offer
}

// other is an offered image and instance type that the CVM does not have. A target has to report
// the values of a CVM and offer two of each.
func (s *suite) other(made platform.Instance) (image, instanceType string) {
	s.Helper()
	if made.OSImage == "" || made.InstanceType == "" || made.DiskGB == 0 {
		s.Fatalf("a running cvm does not report image, instance type and disk: %+v", made)
	}
	offer := s.offer()
	for _, name := range offer.OSImages {
		if !group.SameOSImage(name, made.OSImage) {
			image = name
		}
	}
	for _, name := range offer.InstanceTypes {
		if name != made.InstanceType {
			instanceType = name
		}
	}
	if image == "" || instanceType == "" {
		s.Fatalf("the target offers nothing but what %s has: %+v", made.Name, offer)
	}
	return image, instanceType
}

// hardware: each change reaches the CVM, and nothing else of it changes.
func (s *suite) hardware() {
	made := s.create("contract-hardware")
	defer s.remove(made)
	want := s.Template(0)
	if !group.SameOSImage(made.OSImage, want.OSImage) || made.InstanceType != want.InstanceType || (want.DiskGB != 0 && made.DiskGB != want.DiskGB) {
		s.Errorf("created with %s, %s, %d GB, asked for %s, %s, %d GB", made.OSImage, made.InstanceType, made.DiskGB, want.OSImage, want.InstanceType, want.DiskGB)
	}
	image, size := s.other(made)
	now := made
	for _, step := range []struct {
		name string
		call func() (platform.Accepted, error)
		edit func(*platform.Instance)
	}{
		{"set os image", func() (platform.Accepted, error) { return s.p.SetOSImage(s.Context(), made.VMUUID, image) },
			func(i *platform.Instance) { i.OSImage = image }},
		{"another instance type", func() (platform.Accepted, error) {
			return s.p.Resize(s.Context(), made.VMUUID, platform.Shape{InstanceType: size})
		}, func(i *platform.Instance) { i.InstanceType = size }},
		{"a larger disk", func() (platform.Accepted, error) {
			return s.p.Resize(s.Context(), made.VMUUID, platform.Shape{DiskGB: made.DiskGB + 10})
		}, func(i *platform.Instance) { i.DiskGB = made.DiskGB + 10 }},
		{"both", func() (platform.Accepted, error) {
			return s.p.Resize(s.Context(), made.VMUUID, platform.Shape{InstanceType: made.InstanceType, DiskGB: made.DiskGB + 20})
		}, func(i *platform.Instance) { i.InstanceType, i.DiskGB = made.InstanceType, made.DiskGB+20 }},
		{"nothing new", func() (platform.Accepted, error) { return s.p.SetOSImage(s.Context(), made.VMUUID, image) },
			func(*platform.Instance) {}},
	} {
		s.down(made)
		if _, err := step.call(); err != nil {
			s.Fatalf("%s: %v", step.name, err)
		}
		s.up(made)
		step.edit(&now)
		got := s.await(made.VMUUID, step.name, func(i platform.Instance) bool {
			return i.Running() && group.SameOSImage(i.OSImage, now.OSImage) && i.InstanceType == now.InstanceType && i.DiskGB == now.DiskGB
		})
		s.sameIdentity(step.name, made, got)
		if got.ComposeHash != made.ComposeHash {
			s.Errorf("%s changed the compose hash from %s to %s", step.name, made.ComposeHash, got.ComposeHash)
		}
	}
	listed := s.awaitName(made.Name)
	if !group.SameOSImage(listed.OSImage, now.OSImage) || listed.InstanceType != now.InstanceType || listed.DiskGB != now.DiskGB {
		s.Errorf("the list shows %+v, describe showed %+v", listed, now)
	}
}

// misfits: an impossible change is refused for certain, and changes nothing.
func (s *suite) misfits() {
	made := s.create("contract-misfits")
	defer s.remove(made)
	_, size := s.other(made)
	resize := func(shape platform.Shape) func() (platform.Accepted, error) {
		return func() (platform.Accepted, error) { return s.p.Resize(s.Context(), made.VMUUID, shape) }
	}
	for name, call := range map[string]func() (platform.Accepted, error){
		"no image":                   func() (platform.Accepted, error) { return s.p.SetOSImage(s.Context(), made.VMUUID, "") },
		"an image of no name known":  func() (platform.Accepted, error) { return s.p.SetOSImage(s.Context(), made.VMUUID, "contract-none") },
		"no shape":                   resize(platform.Shape{}),
		"an unknown instance type":   resize(platform.Shape{InstanceType: "contract.none"}),
		"a smaller disk":             resize(platform.Shape{DiskGB: made.DiskGB - 1}),
		"a negative disk":            resize(platform.Shape{DiskGB: -1}),
		"a size with a smaller disk": resize(platform.Shape{InstanceType: size, DiskGB: made.DiskGB - 1}),
	} {
		_, err := call()
		if !errors.Is(err, platform.ErrRefused) || errors.Is(err, platform.ErrBusy) || errors.Is(err, platform.ErrNotFound) {
			s.Errorf("%s: %v, want ErrRefused and no other sort", name, err)
		}
		if now := s.describe(made.VMUUID); !now.Running() || now.OSImage != made.OSImage || now.InstanceType != made.InstanceType || now.DiskGB != made.DiskGB {
			s.Errorf("%s had an effect: %+v", name, now)
		}
	}
}

// underWay: a change of a CVM that is in the middle of something waits: ErrBusy, while it
// lasts. In the middle of its deletion it is that, or gone.
func (s *suite) underWay() {
	made := s.create("contract-under-way")
	for _, change := range s.changes(made) {
		if s.p.Habits().StopFirst {
			break // Restart returns when all is over; case stopFirst has the CVM that runs
		}
		busy := false
		for range 20 { // the restart may be over before the change is asked for
			if _, err := s.p.Restart(s.Context(), made.VMUUID); err != nil {
				s.Fatalf("restart: %v", err)
			}
			_, err := change.to(0)
			if err != nil && !errors.Is(err, platform.ErrBusy) {
				s.Errorf("%s during a restart: %v, want ErrBusy", change.name, err)
			}
			busy = errors.Is(err, platform.ErrBusy)
			s.await(made.VMUUID, "the restart done", func(i platform.Instance) bool { return i.Running() && change.at(i, 0) })
			if busy {
				break
			}
		}
		if !busy {
			s.Errorf("%s during a restart was never ErrBusy", change.name)
		}
	}
	changes := s.changes(made)
	if err := s.p.Delete(s.Context(), made.VMUUID); err != nil {
		s.Fatalf("delete: %v", err)
	}
	for _, change := range changes {
		if _, err := change.to(1); !errors.Is(err, platform.ErrBusy) && !errors.Is(err, platform.ErrNotFound) {
			s.Errorf("%s during the deletion: %v, want ErrBusy or ErrNotFound", change.name, err)
		}
	}
	s.gone(made)
}

// late: an accepted change may not show for a while. Until it does, the CVM looks as it
// was; asking again is ErrBusy, not a second change; then the effect comes.
func (s *suite) late() {
	if s.Hide == nil || s.p.Habits().StopFirst {
		s.Skip("this target shows every effect at once")
	}
	s.needFaults()
	made := s.create("contract-late")
	defer s.remove(made)
	const lag = 300 * time.Millisecond
	defer s.Hide(0)
	for _, change := range s.hardwareChanges(made) {
		for n, lose := range []bool{false, true} {
			want := 1 - n
			s.Hide(lag)
			if lose {
				s.inject(change.call, made.VMUUID, ResetAfter)
			}
			_, err := change.to(want)
			if lose == (err == nil) || errors.Is(err, platform.ErrRefused) {
				s.Errorf("%s with its answer lost: %v: %v", change.name, lose, err)
			}
			_, again := change.to(want)
			if seen := s.describe(made.VMUUID); !change.at(seen, want) && !errors.Is(again, platform.ErrBusy) {
				s.Errorf("%s asked for again while the first does not show (%+v): %v, want ErrBusy", change.name, seen, again)
			}
			s.await(made.VMUUID, "the "+change.name+" that shows late", func(i platform.Instance) bool {
				return i.Running() && change.at(i, want)
			})
		}
	}
}

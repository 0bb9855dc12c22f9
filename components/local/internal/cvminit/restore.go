package cvminit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/sandbox"
)

// initScriptTime bounds the init script; a real guest waits without end.
const initScriptTime = 2 * time.Minute

// runInitScript runs the app-compose's init_script where a guest runs it: after the data disk
// is there, before the container engine starts. The script has the guest's place for the
// engine's state and no other part of the disk. A script that fails ends the boot, as the
// guest's own service does, which reboots.
func (s *supervisor) runInitScript(ctx context.Context) error {
	if s.spec.InitScript == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, initScriptTime)
	defer cancel()
	caps, err := sandbox.Capabilities(nil, nil)
	if err != nil {
		return err
	}
	args, err := sandbox.Args(sandbox.Config{
		Hostname: s.spec.Hostname, Hide: s.spec.Hide, Writable: true, Caps: caps,
		Mounts: []sandbox.Mount{{Source: s.store.dir, Target: engineDir}},
	})
	if err != nil {
		return fmt.Errorf("init_script: %w", err)
	}
	// The guest sources the text in a bash that ends with the first command that fails.
	cmd, err := bwrap(ctx, args, []string{"PATH=" + standardPath}, nil, []string{"bash", "-e", "-c", s.spec.InitScript})
	if err != nil {
		return fmt.Errorf("init_script: %w", err)
	}
	defer cmd.ExtraFiles[0].Close()
	out := s.output(cmd, "")
	s.logf("init script ended with code %d: %s", out.Code, strings.TrimSpace(out.Stdout+out.Stderr))
	if out.Code != 0 {
		return fmt.Errorf("init_script ended with code %d: %.300s", out.Code, strings.TrimSpace(out.Stderr))
	}
	return nil
}

// removeOrphans is the guest's own clean-up before the container engine starts: it removes
// containers whose service the compose file does not name, and no others.
func (s *supervisor) removeOrphans(ctx context.Context) {
	app, err := compose.Load(ctx, []byte(s.spec.Compose), s.spec.Env)
	if err != nil {
		return // the boot error says why
	}
	for _, c := range s.containers() {
		if !slices.ContainsFunc(app.Services, func(svc compose.Service) bool { return svc.Name == c.Config.Labels[labelService] }) {
			s.logf("container of service %s removed: the compose file has no such service", c.Config.Labels[labelService])
			s.remove(c)
		}
	}
}

// restore is the start of the container engine: containers of earlier boots start again by
// their restart policy, each as it was created, before anything reads the compose file.
func (s *supervisor) restore(ctx context.Context) (any bool) {
	for _, c := range s.containers() {
		if !c.returns() {
			continue
		}
		u, err := s.newUnit(c.Content)
		if err != nil {
			s.logf("container %.12s of service %s not restored: %v", c.ID, c.Content.Service.Name, err)
			continue
		}
		u.container = c
		s.logf("service %s restored from container %.12s, image %s", u.svc.Name, c.ID, u.svc.Image)
		s.set(func() { s.units = append(s.units, u) })
		s.running.Go(func() { s.keep(ctx, u) })
		any = true
	}
	return any
}

// composeUp is `docker compose up`: when every image is there, it creates new containers, recreates
// changed ones, and leaves unchanged ones alone. It calls understood once no later step rejects the
// file. An error before that leaves the restored containers running.
func (s *supervisor) composeUp(ctx context.Context, understood func() error) error {
	app, err := compose.Load(ctx, []byte(s.spec.Compose), s.spec.Env)
	if err != nil {
		return err
	}
	s.logf("waits for the images of the compose file")
	unpacked, err := s.awaitImages(ctx)
	if err != nil {
		return err
	}
	for _, note := range app.Notes {
		s.logf("%s", note)
	}
	var errs []error
	left, units, fresh := s.containers(), []*unit{}, []*unit{}
	for _, svc := range app.Services {
		of := contentOf(svc, app.Volumes, unpacked)
		digest, err := of.digest()
		if err != nil {
			return err
		}
		same := slices.IndexFunc(left, func(c *container) bool {
			return c.Config.Labels[labelService] == svc.Name && c.Config.Labels[labelConfig] == digest
		})
		if same >= 0 {
			if u := s.restoredFrom(left[same].ID); u != nil {
				left = slices.Delete(left, same, same+1)
				units = append(units, u)
				continue
			}
		}
		u, err := s.newUnit(of)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", svc.Name, err))
			continue
		}
		if same >= 0 {
			u.container, left = left[same], slices.Delete(left, same, same+1)
		}
		units, fresh = append(units, u), append(fresh, u)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := understood(); err != nil {
		return err
	}
	s.replace(ctx, left)
	for _, u := range fresh {
		if u.container != nil {
			continue
		}
		if !slices.ContainsFunc(left, func(c *container) bool { return c.Config.Labels[labelService] == u.svc.Name }) {
			if err := s.volumes.forgetUnnamed(u); err != nil {
				return fmt.Errorf("service %s: %w", u.svc.Name, err)
			}
		}
		if u.container, err = s.store.create(u.of); err != nil {
			return fmt.Errorf("service %s: %w", u.svc.Name, err)
		}
	}
	s.set(func() { s.units, s.restoring = units, false })
	s.start(ctx, fresh)
	return nil
}

// awaitImages waits until the daemon has pulled the compose file's images.
func (s *supervisor) awaitImages(ctx context.Context) (map[string]images.Unpacked, error) {
	select {
	case got := <-s.images:
		if got.Error != "" {
			return nil, &pullError{got.Error}
		}
		return got.Unpacked, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pullError says which images could not be had. A guest stays up without them.
type pullError struct{ why string }

func (e *pullError) Error() string { return e.why }

// replace ends the restored units of these containers and removes the containers.
func (s *supervisor) replace(ctx context.Context, gone []*container) {
	var all sync.WaitGroup
	for _, c := range gone {
		all.Go(func() {
			if u := s.restoredFrom(c.ID); u != nil {
				s.logf("service %s: its container differs from the compose file and is replaced", u.svc.Name)
				s.set(func() { u.leaving = true })
				s.stopUnit(ctx, u)
				s.waitFor(ctx, func() bool { return u.final })
			}
			s.remove(c)
		})
	}
	all.Wait()
}

func (s *supervisor) restoredFrom(id string) *unit {
	for _, u := range s.all() {
		if u.container != nil && u.container.ID == id {
			return u
		}
	}
	return nil
}

func (s *supervisor) containers() []*container {
	list, err := s.store.list()
	if err != nil {
		s.logf("%v", err)
	}
	return list
}

func (s *supervisor) remove(c *container) {
	if err := s.store.remove(c); err != nil {
		s.logf("container %.12s not removed: %v", c.ID, err)
	}
}

// record stores the engine's knowledge for a power cut.
func (s *supervisor) record(u *unit, change func(*container)) {
	if u.container == nil {
		return
	}
	change(u.container)
	if err := s.store.save(u.container); err != nil {
		s.logf("service %s: %v", u.svc.Name, err)
	}
}

// newUnit prepares a service, without starting it.
func (s *supervisor) newUnit(of content) (*unit, error) {
	u := &unit{of: of, svc: of.Service, volumes: map[string]compose.Volume{}, state: stateWaiting}
	for name, v := range of.Volumes {
		u.volumes[name] = v
	}
	u.svc.Mounts = slices.Clone(of.Service.Mounts)
	if err := s.chooseImage(u); err != nil {
		return nil, err
	}
	var errs []error
	var err error
	if u.who, err = lookUser(u.people, u.svc.User, u.svc.Groups); err != nil {
		errs = append(errs, fmt.Errorf("user: %w", err))
	}
	if u.caps, err = sandbox.Capabilities(u.svc.CapAdd, u.svc.CapDrop); err != nil {
		errs = append(errs, err)
	}
	if len(u.argv()) == 0 {
		errs = append(errs, errors.New("command: neither the compose file nor the image names a command"))
	}
	// A separate folder: a restored container has other configs than its replacement.
	if err := os.MkdirAll(filepath.Join(s.spec.Run, "files"), 0o750); err != nil {
		return nil, fmt.Errorf("make files: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Join(s.spec.Run, "files"), "")
	if err != nil {
		return nil, fmt.Errorf("make files: %w", err)
	}
	if u.mounts, err = s.prepareFiles(dir, u); err != nil {
		errs = append(errs, err)
	}
	return u, errors.Join(errs...)
}

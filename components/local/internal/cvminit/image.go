package cvminit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
)

// chooseImage chooses u's program: a container image, or the image map's entry. The compose file
// overrides the image.
func (s *supervisor) chooseImage(u *unit) error {
	var err error
	if img := u.of.Unpacked; img != nil {
		u.img, u.root = img.Image, img.Root
		if u.people, err = readPeople(img.Root); err != nil {
			return err
		}
		if err := fit(&u.svc, *img); err != nil {
			return fmt.Errorf("image %q: %w", u.svc.Image, err)
		}
		anonymousVolumes(u, *img)
	} else {
		u.people = hostPeople{}
		if u.img, err = s.spec.Images.Lookup(u.svc.Image); err != nil {
			return err
		}
	}
	if u.svc.User == "" {
		u.svc.User = u.img.User
	}
	if u.svc.StopSignal == 0 {
		u.svc.StopSignal = syscall.SIGTERM
	}
	return nil
}

// fit takes the image's stop signal and health check where the compose file has none.
func fit(svc *compose.Service, img images.Unpacked) error {
	if svc.StopSignal == 0 && img.StopSignal != "" {
		sig, err := compose.ParseSignal(img.StopSignal)
		if err != nil {
			return fmt.Errorf("its stop signal: %w", err)
		}
		svc.StopSignal = sig
	}
	h := img.Health
	if svc.Health != nil || svc.NoHealth || h == nil || len(h.Test) == 0 || h.Test[0] == "NONE" {
		return nil
	}
	if len(h.Test) < 2 || h.Test[0] != "CMD" && h.Test[0] != "CMD-SHELL" {
		return fmt.Errorf("its health check %.100q is neither CMD nor CMD-SHELL", h.Test)
	}
	svc.Health = compose.HealthOf(h.Test)
	if h.Interval > 0 {
		svc.Health.Interval = h.Interval
	}
	if h.Timeout > 0 {
		svc.Health.Timeout = h.Timeout
	}
	if h.Retries > 0 {
		svc.Health.Retries = h.Retries
	}
	svc.Health.StartPeriod = max(h.StartPeriod, 0)
	if err := svc.Health.Check(); err != nil {
		return fmt.Errorf("its health check: %w", err)
	}
	return nil
}

// anonymousVolumes adds the volumes that the image declares and the compose file leaves unnamed.
func anonymousVolumes(u *unit, img images.Unpacked) {
	for _, target := range img.Volumes {
		if slices.ContainsFunc(u.svc.Mounts, func(m compose.Mount) bool { return m.Target == target }) {
			continue
		}
		name := compose.Anonymous(u.svc.Name, target)
		u.volumes[name] = compose.Volume{Name: name}
		u.svc.Mounts = append(u.svc.Mounts, compose.Mount{Kind: compose.MountVolume, Source: name, Target: target})
	}
}

// rootBounds limit a service's files outside its volumes, which take the machine's memory: the
// default is half of it, for each service.
const rootBounds = "size=1g,nr_inodes=262144"

// mountRoot stacks a tmpfs on u's image, for this start only. release drops its content.
func (s *supervisor) mountRoot(u *unit) (root string, release func(), err error) {
	release = func() {}
	base := filepath.Join(s.spec.Run, "roots", "of-"+u.svc.Name)
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", release, fmt.Errorf("make root: %w", err)
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,"+rootBounds); err != nil {
		return "", release, fmt.Errorf("mount tmpfs for the root: %w", err)
	}
	root = filepath.Join(base, "root")
	release = func() {
		// Lazily: a process that is about to end may still hold it.
		_ = unix.Unmount(root, unix.MNT_DETACH)
		_ = unix.Unmount(base, unix.MNT_DETACH)
	}
	if err := stack(u.root, base); err != nil {
		return "", release, err
	}
	return root, release, nil
}

// stack mounts lower below base/upper at base/root. Paths go as descriptors: the file
// system splits its options at commas and colons.
func stack(lower, base string) error {
	info, err := os.Stat(lower)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	var fds [2]int
	for i, dir := range []string{lower, base} {
		if fds[i], err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		defer unix.Close(fds[i]) //nolint:errcheck // a path only
	}
	upper := filepath.Join(base, "upper")
	for _, dir := range []string{upper, filepath.Join(base, "work"), filepath.Join(base, "root")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
	}
	// The root directory itself is the upper one: it is to look like the image's.
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("image: its root has no owner")
	}
	if err := errors.Join(os.Chown(upper, int(owner.Uid), int(owner.Gid)), os.Chmod(upper, info.Mode())); err != nil {
		return fmt.Errorf("make root: %w", err)
	}
	data := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,workdir=/proc/self/fd/%d/work", fds[0], fds[1], fds[1])
	if err := unix.Mount("overlay", filepath.Join(base, "root"), "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	return nil
}

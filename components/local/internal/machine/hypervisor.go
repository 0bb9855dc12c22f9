package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fabric"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/imagestore"
	"cadre.dev/local/internal/initctl"
	"cadre.dev/local/internal/kmsauth"
)

var _ cloud.Hypervisor = (*Hypervisor)(nil)

// Config configures a Hypervisor.
type Config struct {
	// Dir is the state directory, absolute and without symlinks.
	Dir    string
	Fabric *fabric.Fabric
	// Sim is the simulated manufacturer; nil boots CVMs without guest agent.
	Sim *attestsim.Cloud
	// Rating is how the manufacturer rates its machines now; nil: as up to date.
	Rating func() attestsim.Posture
	Images images.Map
	// Store has the container images that Images does not map; nil is none.
	Store *imagestore.Store
	// Become is the path of the cadre-become program, which services of images need.
	Become string
	// Program is the path of this binary, run as "<program> cvm-init".
	Program string
	Log     *slog.Logger
}

// Hypervisor boots CVMs as process trees of this machine.
type Hypervisor struct {
	cfg  Config
	road road

	mu     sync.Mutex
	faults map[string]attestsim.Faults // by CVM uuid, for its next boots
}

// New checks that this machine can run CVMs.
func New(cfg Config) (*Hypervisor, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("running CVMs needs root: namespaces, mounts and service users are made")
	}
	for _, tool := range []string{"bwrap", "setpriv", "nsenter", "prlimit"} {
		if err := present(tool); err != nil {
			return nil, err
		}
	}
	return &Hypervisor{cfg: cfg, faults: map[string]attestsim.Faults{}}, nil
}

// SetFaults makes the guest agent misbehave from the CVM's next boot on.
func (h *Hypervisor) SetFaults(uuid string, f attestsim.Faults) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[uuid] = f
}

// Erase removes everything of the CVM.
func (h *Hypervisor) Erase(uuid string) error {
	h.cfg.Fabric.Forget(uuid)
	return os.RemoveAll(h.dir(uuid))
}

// LoseDisk removes the data disk.
func (h *Hypervisor) LoseDisk(uuid string) error {
	return os.RemoveAll(filepath.Join(h.dir(uuid), "disk"))
}

func (h *Hypervisor) dir(uuid string) string { return filepath.Join(h.cfg.Dir, "cvms", uuid) }

// Boot starts one CVM and returns when its pid 1 has accepted the compose file.
func (h *Hypervisor) Boot(ctx context.Context, spec cloud.BootSpec) (cloud.Machine, error) {
	m := &Machine{
		log: h.cfg.Log.With("instance", spec.Name), run: filepath.Join(h.dir(spec.UUID), "run"),
		notify: spec.Notify, done: make(chan struct{}), received: make(chan struct{}), pulled: make(chan struct{}), accepted: make(chan string, 1), replies: map[uint64]chan initctl.Message{},
	}
	var pull context.Context
	pull, m.endPull = context.WithCancel(ctx)
	if err := h.boot(ctx, spec, m); err != nil {
		m.endPull()
		m.cleanUp()
		return nil, err
	}
	// The guest boots meanwhile: its engine's restored containers run before any image is there.
	go h.pull(pull, spec, m)
	select {
	case problem := <-m.accepted:
		if problem == "" {
			return m, nil
		}
		m.Kill()
		return nil, errors.New(problem)
	case <-m.done:
		select {
		case problem := <-m.accepted:
			if problem != "" {
				return nil, errors.New(problem)
			}
		default:
		}
		return nil, errors.New("pid 1 ended while booting; see cvm-init.log")
	case <-ctx.Done():
		m.Kill()
		return nil, context.Cause(ctx)
	}
}

// pull sends the images of the compose file to pid 1 when they are there, or says why they
// are not. It ends with the machine.
func (h *Hypervisor) pull(ctx context.Context, spec cloud.BootSpec, m *Machine) {
	defer close(m.pulled)
	var got initctl.Images
	err := h.road.pass(ctx, spec.Name)
	if err == nil {
		got.Unpacked, err = h.unpack(ctx, spec)
	}
	if err != nil {
		got = initctl.Images{Error: err.Error()}
	}
	// A machine that is gone needs none.
	_ = m.conn.Send(initctl.Request{Images: &got})
}

func (h *Hypervisor) boot(ctx context.Context, spec cloud.BootSpec, m *Machine) (err error) {
	dir := h.dir(spec.UUID)
	// The last run directory may be there when the daemon was killed.
	if err := os.RemoveAll(m.run); err != nil {
		return fmt.Errorf("clear run directory: %w", err)
	}
	disk := filepath.Join(dir, "disk")
	for _, d := range []string{m.run, disk, filepath.Join(dir, "logs")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if m.port, err = h.cfg.Fabric.Attach(spec.UUID, spec.Index); err != nil {
		return err
	}
	if h.cfg.Sim != nil {
		h.mu.Lock()
		faults := h.faults[spec.UUID]
		h.mu.Unlock()
		host := ""
		if spec.HostUpdated {
			host = attestsim.UpdatedHost(host)
		}
		guest, err := h.cfg.Sim.Boot(attestsim.BootConfig{
			AppID: spec.AppID, AppCompose: spec.AppCompose, InstanceIDSeed: spec.Seed, OSImage: spec.OSImage, Host: host,
			Machine: spec.Machine,
			Shape:   attestsim.Shape{VCPU: spec.VCPU, MemoryMB: spec.MemoryMB}, Faults: faults,
		})
		if err != nil {
			return fmt.Errorf("boot guest agent: %w", err)
		}
		if err := h.authorise(ctx, spec, guest); err != nil {
			return err
		}
		m.instanceID = guest.InstanceID()
		if m.guest, err = serveGuest(ctx, m.run, guest.Handler()); err != nil {
			return err
		}
	}
	if err := markDisk(disk, m.instanceID); err != nil {
		return err
	}
	raw, err := json.Marshal(initctl.Spec{
		Hostname: hostname(spec), Compose: spec.Compose, Env: spec.Env, Images: h.cfg.Images, InitScript: spec.InitScript, Become: h.cfg.Become,
		Disk: disk, Run: m.run, Logs: filepath.Join(dir, "logs"), GuestSocket: filepath.Join(m.run, guestSocket),
		Hide: []string{h.cfg.Dir},
	})
	if err != nil {
		return fmt.Errorf("encode boot spec: %w", err)
	}
	path := filepath.Join(m.run, "spec.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("write boot spec: %w", err)
	}
	return m.start(ctx, h.cfg.Program, path, filepath.Join(dir, "logs", "cvm-init.log"))
}

// authorise asks the KMS's webhook whether the guest may have its keys. Without keys the guest neither
// opens its disk nor starts a service.
func (h *Hypervisor) authorise(ctx context.Context, spec cloud.BootSpec, guest *attestsim.Guest) error {
	if spec.KMSAuth == "" {
		return nil
	}
	var rating attestsim.Posture
	if h.cfg.Rating != nil {
		rating = h.cfg.Rating()
	}
	if err := kmsauth.Ask(ctx, spec.KMSAuth, guest.KeyRequest(rating)); err != nil {
		return &cloud.Halted{Progress: "requesting app keys", Err: err}
	}
	return nil
}

var hostnameForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)

// hostname is the CVM's name, or its uuid where the name is none of a machine: dstack-vmm takes names
// with spaces, of any length.
func hostname(spec cloud.BootSpec) string {
	if hostnameForm.MatchString(spec.Name) {
		return spec.Name
	}
	return spec.UUID
}

// markDisk leaves a marker on a fresh disk: which instance formatted it, when.
// A disk that was lost has a younger marker than its CVM.
func markDisk(disk, instanceID string) error {
	path := filepath.Join(disk, "marker.json")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	raw, err := json.Marshal(map[string]string{"instance_id": instanceID, "formatted_at": time.Now().UTC().Format(time.RFC3339Nano)})
	if err != nil {
		return fmt.Errorf("encode disk marker: %w", err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("mark disk: %w", err)
	}
	return nil
}

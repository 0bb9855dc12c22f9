package cloud

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"cadre.dev/local/internal/appcompose"
)

// NewVM is the request for a VM.
type NewVM struct {
	Name, Image string
	DiskGB      uint32
	// EncryptedEnv is hex; empty is none.
	EncryptedEnv string
	// AppID is the app's; empty: the app of ComposeFile.
	AppID string
	// Stopped leaves the VM off.
	Stopped bool
	VM
}

// AppIDOf is the app id of a document that is the first of its app.
func AppIDOf(composeFile string) string { return appcompose.Hash([]byte(composeFile))[:40] }

// CreateVM makes a VM and, unless it is to be stopped, starts it. Neither name nor request are
// unique: each call makes another VM. An error had no effect.
func (c *Cloud) CreateVM(host string, n NewVM) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := slices.Index(c.cfg.Hosts, host) + 1
	if node == 0 || c.closing {
		return "", errClosed
	}
	if err := c.loadable(n.Image, n.ComposeFile); err != nil {
		return "", err
	}
	index, err := c.freeIndex()
	if err != nil {
		return "", errors.New("Failed to load VM: CID pool exhausted") //nolint:staticcheck // the text of the real server
	}
	appID := strings.ToLower(strings.TrimPrefix(n.AppID, "0x"))
	if appID == "" {
		appID = AppIDOf(n.ComposeFile)
	}
	now := time.Now().UTC()
	c.st.NextNum++
	vm := n.VM
	v := &CVM{
		Num: c.st.NextNum, ID: "vm_" + hex.EncodeToString(randomBytes(6)), Name: n.Name, AppID: appID, VMUUID: newUUID(), Seed: randomBytes(20),
		Index: index, Status: Stopped, ComposeHash: appcompose.Hash([]byte(n.ComposeFile)), EncryptedEnv: n.EncryptedEnv, OSImage: n.Image,
		DiskGB: int(n.DiskGB), NodeID: node, CreatedAt: now, UpdatedAt: now, VisibleAt: now, VM: &vm,
	}
	c.st.CVMs = append(c.st.CVMs, v)
	if n.Stopped {
		err = c.save()
	} else {
		err = c.startVM(v)
	}
	if err != nil {
		c.remove(v)
		return "", err
	}
	c.cfg.Log.Info("vm created", "instance", v.Name, "host", host, "vm", v.VMUUID)
	return v.VMUUID, nil
}

// VMUpdate changes the files of a VM. A nil pointer and an empty text leave the old value.
type VMUpdate struct {
	ComposeFile, EncryptedEnv, UserConfig string
	VCPU, MemoryMB, DiskGB                *uint32
	Image                                 *string
	NoTEE                                 *bool
	AttachMode                            *string
	Ports                                 *[]VMPort
	KMSURLs, GatewayURLs                  *[]string
	Networks                              *[]VMNetwork
}

// UpdateVM writes the files of a VM, for its next start. It returns the app id of a new
// document, else "". Compose file, env and user config are written first: an error about the rest
// comes when they have changed already.
func (c *Cloud) UpdateVM(host, id string, u VMUpdate) (appID string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if u.ComposeFile != "" {
		if err := c.checkDocument(u.ComposeFile); err != nil {
			return "", fmt.Errorf("Invalid compose file: %w", err) //nolint:staticcheck // the text of the real server
		}
		if v == nil {
			return "", fmt.Errorf("The instance %s not found", id) //nolint:staticcheck // the text of the real server
		}
		v.VM.ComposeFile, v.ComposeHash = u.ComposeFile, appcompose.Hash([]byte(u.ComposeFile))
		appID = AppIDOf(u.ComposeFile)
	}
	switch {
	case v != nil:
	case u.EncryptedEnv != "":
		return "", noFile("Failed to write encrypted env", id, "shared/.encrypted-env")
	case u.UserConfig != "":
		return "", noFile("Failed to write user config", id, "shared/.user-config")
	default:
		return "", noFile("Failed to read manifest: Failed to read manifest", id, "vm-manifest.json")
	}
	if u.EncryptedEnv != "" {
		v.EncryptedEnv = u.EncryptedEnv
	}
	if u.UserConfig != "" {
		v.VM.UserConfig = u.UserConfig
	}
	v.UpdatedAt = time.Now().UTC()
	if err := c.save(); err != nil {
		return "", err
	}
	if err := c.writeManifest(v, u); err != nil {
		return "", err
	}
	return appID, c.save()
}

// ResizeVM is the older call for the virtual hardware alone.
func (c *Cloud) ResizeVM(host, id string, u VMUpdate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if v == nil {
		return noFile("failed to read manifest: Failed to read manifest", id, "vm-manifest.json")
	}
	if err := c.writeManifest(v, u); err != nil {
		return err
	}
	return c.save()
}

// writeManifest changes the manifest of v as a whole or not at all, and loads it again.
func (c *Cloud) writeManifest(v *CVM, u VMUpdate) error {
	if u.VCPU != nil || u.MemoryMB != nil || u.DiskGB != nil || u.Image != nil {
		if s := c.vmInfo(v).State(); s != "stopped" && s != "exited" {
			return fmt.Errorf("vm should be stopped before resize: %s", v.VMUUID)
		}
	}
	disk := v.DiskGB
	if u.DiskGB != nil {
		switch {
		case int(*u.DiskGB) < v.DiskGB:
			return errors.New("Cannot shrink disk size") //nolint:staticcheck // the text of the real server
		case !v.VM.Disk && !c.newer():
			path := v.VMUUID + "/hda.img"
			return fmt.Errorf("Failed to resize disk: qemu-img: Could not open '%s': Could not open '%s': No such file or directory\n", path, path) //nolint:revive,staticcheck // the text of the real server
		}
		v.DiskGB = int(*u.DiskGB)
	}
	was := VMLoaded{Image: v.OSImage, VCPU: v.VM.VCPU, MemoryMB: v.VM.MemoryMB, DiskGB: disk}
	set(&v.VM.VCPU, u.VCPU)
	set(&v.VM.MemoryMB, u.MemoryMB)
	set(&v.OSImage, u.Image)
	set(&v.VM.NoTEE, u.NoTEE)
	set(&v.VM.AttachMode, u.AttachMode)
	set(&v.VM.Ports, u.Ports)
	set(&v.VM.KMSURLs, u.KMSURLs)
	set(&v.VM.GatewayURLs, u.GatewayURLs)
	set(&v.VM.Networks, u.Networks)
	if err := c.save(); err != nil {
		return err
	}
	err := c.loadable(v.OSImage, v.VM.ComposeFile)
	switch {
	case err == nil:
		v.VM.Loaded = nil
	case v.VM.Loaded == nil:
		v.VM.Loaded = &was
	}
	return err
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

var imageRule = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)

// loadable refuses a VM whose image or document a host cannot load.
func (c *Cloud) loadable(image, composeFile string) error {
	switch {
	case len(image) > 64 || strings.Contains(image, "..") || !imageRule.MatchString(image):
		return errors.New("Failed to load VM: Invalid image name") //nolint:staticcheck // the text of the real server
	case !c.hasImage(image):
		return noImage("Failed to load VM: Failed to load image", image)
	}
	if err := c.checkDocument(composeFile); err != nil {
		return fmt.Errorf("Failed to load VM: Failed to read compose file: %w", err) //nolint:staticcheck // the text of the real server
	}
	return nil
}

func (c *Cloud) hasImage(image string) bool {
	return image != "" && (len(c.cfg.Images) == 0 || slices.Contains(c.cfg.Images, image))
}

// newer says whether the hosts have the habits of dstack 0.6.
func (c *Cloud) newer() bool {
	v := c.settings.VMMVersion
	return v != "" && !strings.HasPrefix(v, "0.5.")
}

// CheckDocument refuses an app-compose.json that a host cannot read.
func (c *Cloud) CheckDocument(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkDocument(text)
}

// checkDocument is CheckDocument under the lock.
func (c *Cloud) checkDocument(text string) error {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		into any
	}{{"manifest_version", new(uint32)}, {"name", new(string)}, {"runner", new(string)}} {
		raw, ok := doc[f.name]
		if !ok {
			return fmt.Errorf("missing field `%s`", f.name)
		}
		if f.name == "manifest_version" && c.newer() && string(raw) == `"3"` {
			continue
		}
		if err := json.Unmarshal(raw, f.into); err != nil || string(raw) == "null" {
			return fmt.Errorf("invalid type of field `%s`: %.80s", f.name, raw)
		}
	}
	for _, f := range []struct {
		name string
		into any
	}{{"docker_compose_file", new(string)}, {"allowed_envs", new([]string)}, {"features", new([]string)}, {"kms_enabled", new(bool)}, {"public_logs", new(bool)}, {"public_sysinfo", new(bool)}, {"key_provider_id", new(string)}} {
		if raw, ok := doc[f.name]; ok && json.Unmarshal(raw, f.into) != nil {
			return fmt.Errorf("invalid type of field `%s`: %.80s", f.name, raw)
		}
	}
	return nil
}

// noImage is the error about an image that the host lacks.
func noImage(doing, image string) error {
	return noFile(doing+": failed to open image info", "images/"+image, "metadata.json")
}

// noFile is the error about the work folder of an unknown VM.
func noFile(doing, id, file string) error {
	return fmt.Errorf("%s: failed to open file `%s/%s`: No such file or directory (os error 2)", doing, id, file)
}

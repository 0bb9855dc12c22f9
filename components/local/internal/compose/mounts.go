package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// guestSockets are the places where a real CVM has the guest agent's socket.
var guestSockets = []string{"/var/run/dstack.sock", "/run/dstack.sock", "/var/run/dstack/dstack.sock", "/run/dstack/dstack.sock"}

func (c *converter) mounts(s types.ServiceConfig) []Mount {
	var out []Mount
	add := func(key string, m Mount) {
		if !path.IsAbs(m.Target) || path.Clean(m.Target) == "/" {
			c.refuse(s.Name, key, "target %q must be an absolute path below /", m.Target)
			return
		}
		m.Target = path.Clean(m.Target)
		if slices.ContainsFunc(out, func(o Mount) bool { return o.Target == m.Target }) {
			c.refuse(s.Name, key, "target %s is mounted twice", m.Target)
			return
		}
		out = append(out, m)
	}
	for _, v := range s.Volumes {
		if m, ok := c.mount(s.Name, v); ok {
			add("volumes", m)
		}
	}
	for _, t := range s.Tmpfs {
		target, opts, _ := strings.Cut(t, ":")
		m := Mount{Kind: MountTmpfs, Target: target}
		if err := tmpfsOptions(opts, &m); err != "" {
			c.refuse(s.Name, "tmpfs", "%s", err)
		}
		add("tmpfs", m)
	}
	for _, cfg := range s.Configs {
		if m, ok := c.config(s.Name, cfg); ok {
			add("configs", m)
		}
	}
	return out
}

func (c *converter) mount(service string, v types.ServiceVolumeConfig) (Mount, bool) {
	m := Mount{Target: v.Target, ReadOnly: v.ReadOnly}
	switch v.Type {
	case types.VolumeTypeVolume:
		m.Kind, m.Source = MountVolume, v.Source
		if v.Volume != nil && v.Volume.Subpath != "" {
			c.refuse(service, "volumes", "subpath of %s is not supported", v.Source)
			return m, false
		}
		if v.Source == "" {
			name := Anonymous(service, v.Target)
			c.volumes[name] = Volume{Name: name}
			m.Source = name
		}
		if _, ok := c.volumes[m.Source]; !ok {
			c.refuse(service, "volumes", "volume %q is not declared under volumes", m.Source)
			return m, false
		}
		return m, true
	case types.VolumeTypeTmpfs:
		m.Kind = MountTmpfs
		if v.Tmpfs != nil {
			m.Size, m.Mode = int64(v.Tmpfs.Size), v.Tmpfs.Mode
		}
		return m, true
	case types.VolumeTypeBind:
		if slices.Contains(guestSockets, path.Clean(v.Source)) {
			m.Kind = MountGuest
			return m, true
		}
		c.refuse(service, "volumes", "bind mount of %s: only the guest agent's socket /var/run/dstack.sock can be bound; use a named volume", v.Source)
	default:
		c.refuse(service, "volumes", "type %q is not supported", v.Type)
	}
	return m, false
}

// Anonymous names a volume without a name. Containers that replace each other share the name, since
// compose passes the volume on. Two services or targets never share one, with any dashes and
// slashes in their names.
func Anonymous(service, target string) string {
	sum := sha256.Sum256([]byte(service + "\x00" + path.Clean(target)))
	return "anonymous-" + hex.EncodeToString(sum[:])
}

func tmpfsOptions(opts string, m *Mount) string {
	for o := range strings.SplitSeq(opts, ",") {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "", "rw", "noexec", "nosuid", "nodev", "exec", "suid", "dev":
		case "size":
			size, ok := parseSize(value)
			if !ok {
				return "size " + value + " is not a number of bytes, k, m or g"
			}
			m.Size = size
		case "mode":
			n, err := strconv.ParseUint(value, 8, 32)
			if err != nil {
				return "mode " + value + " is not octal"
			}
			m.Mode = uint32(n)
		default:
			return "option " + o + " is not supported"
		}
	}
	return ""
}

func parseSize(s string) (int64, bool) {
	shift := 0
	switch {
	case s == "":
		return 0, false
	case strings.ContainsAny(s[len(s)-1:], "kK"):
		shift = 10
	case strings.ContainsAny(s[len(s)-1:], "mM"):
		shift = 20
	case strings.ContainsAny(s[len(s)-1:], "gG"):
		shift = 30
	}
	if shift > 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return n << shift, err == nil && n > 0
}

func (c *converter) config(service string, ref types.ServiceConfigObjConfig) (Mount, bool) {
	m := Mount{Kind: MountConfig, Target: ref.Target, ReadOnly: true, Mode: 0o444}
	def, ok := c.project.Configs[ref.Source]
	if !ok {
		c.refuse(service, "configs", "config %q is not declared under configs", ref.Source)
		return m, false
	}
	switch {
	case def.Content != "":
		m.Content = def.Content
	case def.Environment != "":
		value, ok := c.project.Environment[def.Environment]
		if !ok {
			c.refuse(service, "configs", "config %s: variable %s is not in the environment", ref.Source, def.Environment)
			return m, false
		}
		m.Content = value
	default:
		c.refuse(service, "configs", "config %s: only inline content (or environment) is supported; a CVM has no other files than the compose file", ref.Source)
		return m, false
	}
	if m.Target == "" {
		m.Target = "/" + ref.Source
	}
	if ref.Mode != nil {
		m.Mode = uint32(*ref.Mode)
	}
	for _, id := range []struct {
		text string
		to   *int
		key  string
	}{{ref.UID, &m.UID, "uid"}, {ref.GID, &m.GID, "gid"}} {
		if id.text == "" {
			continue
		}
		n, err := strconv.Atoi(id.text)
		if err != nil || n < 0 {
			c.refuse(service, "configs", "config %s: %s %q is not a number", ref.Source, id.key, id.text)
			return m, false
		}
		*id.to = n
	}
	return m, true
}

package daemon

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/imagetest"
)

// shelf is a layout folder with images of one static program.
type shelf struct {
	*testing.T
	layout, become string
	probe          []byte
}

var programs struct {
	once          sync.Once
	become, probe []byte
}

// newShelf builds the common parts of every image test; the programs once for all of them.
func newShelf(t *testing.T) *shelf {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: running CVMs needs root")
	}
	programs.once.Do(func() {
		for pkg, to := range map[string]*[]byte{"cadre.dev/local/cmd/cadre-become": &programs.become, "./testdata/probe": &programs.probe} {
			raw, err := os.ReadFile(imagetest.Static(t, pkg, "program"))
			if err != nil {
				t.Fatal(err)
			}
			*to = raw
		}
	})
	s := &shelf{T: t, layout: filepath.Join(t.TempDir(), "layout"), become: filepath.Join(t.TempDir(), "cadre-become"), probe: programs.probe}
	if err := os.WriteFile(s.become, programs.become, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// use starts a cloud with the shelf's images, in addition to the image map of tests.
func (s *shelf) use(c *Config) { c.Layout, c.Become = s.layout, s.become }

// add puts an image of the program and more into the layout. The returned reference has the form of
// a user who pushed the image elsewhere too.
func (s *shelf) add(name string, config v1.Config, more ...imagetest.Entry) string {
	s.Helper()
	base := imagetest.Archive(s, imagetest.File("bin/probe", 0o755, string(s.probe)))
	layers := [][]byte{base}
	if len(more) > 0 {
		layers = append(layers, imagetest.Archive(s, more...))
	}
	return "registry.example/team/" + name + ":1@" + imagetest.Add(s, s.layout, name+":1", imagetest.Image(s, config, layers...))
}

var people = []imagetest.Entry{
	imagetest.File("etc/passwd", 0o644, "root:x:0:0::/root:/bin/sh\napp:x:1234:2345::/home/app:/bin/none\n"),
	imagetest.File("etc/group", 0o644, "root:x:0:\napp:x:2345:\nextra:x:3456:other,app\nmore:x:4567:\n"),
}

// probed runs the program in a service and returns its lines.
func (s *site) probed(cvm, service string, args ...string) (string, int) {
	s.Helper()
	out := s.local(200, "POST", "/cvms/"+cvm+"/exec", obj{"service": service, "command": append([]string{"probe"}, args...)})
	return strings.TrimSpace(out["stdout"].(string) + out["stderr"].(string)), int(out["code"].(float64))
}

// log is the log of a service of the CVM.
func (s *site) log(v obj, service string) string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "cvms", v["vm_uuid"].(string), "logs", service+".log"))
	if err != nil {
		s.Fatal(err)
	}
	return string(raw)
}

// TestACVMBootsFromImages: from a registry, by digest, with nothing of this machine in it.
func TestACVMBootsFromImages(t *testing.T) {
	shelf := newShelf(t)
	full := shelf.add("full", v1.Config{
		Entrypoint: []string{"probe", "id"}, Cmd: []string{"wait"}, User: "app", WorkingDir: "/srv/not/there", StopSignal: "SIGUSR1",
		Env: []string{"PATH=/bin", "GREETING=image", "OTHER=x"}, Volumes: map[string]struct{}{"/var/lib/kept": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "probe", "ls", "/"}, Interval: 50_000_000},
	}, append([]imagetest.Entry{
		imagetest.Dir("data", 0o750, 1234, 2345), imagetest.Owned(imagetest.File("data/seed", 0o640, "seed"), 1234, 2345), imagetest.Link("data/link", "seed"),
		imagetest.Dir("run", 0o755, 0, 0), imagetest.Link("var/run", "/run"), imagetest.Dir("tmp", 0o1777, 0, 0),
		imagetest.Dir("etc", 0o755, 0, 0), imagetest.Link("etc/resolv.conf", "../run/stub/resolv.conf"),
		imagetest.File("bin/su", 0o4755, string(shelf.probe)), imagetest.File("etc/config", 0o644, "image"),
	}, people...)...)
	lean := shelf.add("lean", v1.Config{Entrypoint: []string{"/bin/probe"}})
	s := start(t, t.TempDir(), shelf.use)
	compose := `
services:
  full:
    image: ` + full + `
    network_mode: host
    environment: {GREETING: compose}
    group_add: [more]
    ulimits: {nofile: {soft: 100, hard: 200}}
    volumes: [data:/data, "/var/run/dstack.sock:/var/run/dstack.sock", mesh:/run/mesh]
    tmpfs: ["/scratch:mode=0700", /run/private]
    configs: [{source: conf, target: /etc/deep/conf}]
    extra_hosts: ["peer:127.0.0.9"]
  lean:
    image: ` + lean + `
    network_mode: host
    read_only: true
    command: [append, /volume/log, booted, id, wait]
    volumes: [volume:/volume, "mesh:/run/mesh"]
    configs: [{source: conf, target: /conf}]
  again:
    image: ` + lean + `
    network_mode: host
    user: "77:88"
    cap_drop: [ALL]
    command: [id, wait]
volumes: {data: {}, volume: {}, mesh: {driver_opts: {type: tmpfs, device: tmpfs}}}
configs: {conf: {content: "price"}}
`
	v := s.create("image-0", compose)
	t.Run("the image's config holds, and the compose file's goes before it", func(t *testing.T) {
		const who = "probe 1234 2345 [3456 4567] /srv/not/there /home/app compose"
		// A service runs before it has written anything.
		s.until("every service waits", func() bool {
			return strings.Contains(s.log(v, "full"), "waits\n") && strings.Contains(s.log(v, "lean"), "waits\n") && strings.Contains(s.log(v, "again"), "waits\n")
		})
		if got := s.log(v, "full"); !strings.HasPrefix(got, who+"\nwaits\n") {
			t.Errorf("full says %q", got)
		}
		if got := s.log(v, "lean"); got != "probe 0 0 [] / / \nwaits\n" {
			t.Errorf("lean says %q", got)
		}
		if got := s.log(v, "again"); got != "probe 77 88 [] / / \nwaits\n" {
			t.Errorf("again says %q", got)
		}
		if got, code := s.probed("image-0", "full", "id"); got != who || code != 0 {
			t.Errorf("run in full: %q, %d", got, code)
		}
		s.until("the image's health check passes", func() bool {
			for _, svc := range s.local(200, "GET", "/cvms/image-0", nil)["services"].([]any) {
				if svc.(obj)["name"] == "full" {
					return svc.(obj)["health"] == "healthy"
				}
			}
			return false
		})
	})
	t.Run("a service sees its image and its mounts, and nothing else", func(t *testing.T) {
		for _, c := range []struct{ service, args, want string }{
			{"lean", "ls /", ".cadre-become bin conf dev etc proc run sys volume"},
			{"lean", "ls /etc", "hosts resolv.conf"},
			{"lean", "ls /run", "mesh"},
			{"lean", "cat /conf", "price"},
			{"full", "cat /etc/deep/conf", "price"},
			{"full", "cat /etc/config", "image"},
			{"full", "cat /data/link", "seed"},
			{"full", "stat /data stat /data/seed", "/data drwxr-x--- 1234 2345\n/data/seed -rw-r----- 1234 2345"},
			{"full", "stat /run/mesh stat /run/private", "/run/mesh dtrwxrwxrwx 0 0\n/run/private dtrwxrwxrwx 0 0"},
			{"full", "stat /var/run/dstack.sock", "/var/run/dstack.sock Srwxrwxrwx 0 0"},
			{"full", "stat /etc stat /etc/deep stat /", "/etc drwxr-xr-x 0 0\n/etc/deep drwxr-xr-x 0 0\n/ drwxr-xr-x 0 0"},
			{"full", "stat /var/lib/kept", "/var/lib/kept drwxr-xr-x 0 0"},
			{"full", "room /", "1073741824 262144"},
			{"full", "caps", "CapEff: 0000000000000000\nCapBnd: 00000000a80425fb\nNoNewPrivs: 1"},
			{"again", "caps", "CapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1"},
			{"lean", "caps", "CapEff: 00000000a80425fb\nCapBnd: 00000000a80425fb\nNoNewPrivs: 1"},
		} {
			if got, code := s.probed("image-0", c.service, strings.Fields(c.args)...); got != c.want || code != 0 {
				t.Errorf("%s: probe %s = %d\n got %q\nwant %q", c.service, c.args, code, got, c.want)
			}
		}
		if got, _ := s.probed("image-0", "full", "cat", "/etc/hosts"); !strings.Contains(got, "127.0.0.9 peer") || !strings.Contains(got, "image-0") {
			t.Errorf("hosts: %q", got)
		}
		for _, c := range []struct{ service, args, want string }{
			{"full", "cat " + s.dir + "/cloud.json", "no such file"},
			{"full", "ls /scratch", "permission denied"}, // of root alone
			{"full", "append /etc/config x", "permission denied"},
			{"lean", "append /file x", "read-only file system"},
			{"lean", "append /conf x", "read-only file system"},
			{"lean", "append /.cadre-become x", "read-only file system"},
			{"lean", "append /bin/new x", "read-only file system"},
		} {
			got, code := s.probed("image-0", c.service, strings.Fields(c.args)...)
			// The kernel says this first of a program that a health check runs at the moment.
			got = strings.Replace(got, "text file busy", "read-only file system", 1)
			if !strings.Contains(got, c.want) || code == 0 {
				t.Errorf("%s: probe %s = %q, %d, want %q", c.service, c.args, got, code, c.want)
			}
		}
		out := s.local(200, "POST", "/cvms/image-0/exec", obj{"service": "lean", "command": []string{"sh", "-c", "true"}})
		if text := out["stderr"].(string); out["code"] != 127.0 || !strings.Contains(text, `run "sh": not found in the image`) {
			t.Errorf("sh in an image without: %v", out)
		}
		out = s.local(400, "POST", "/cvms/image-0/exec", obj{"service": "full", "user": "nobody", "command": []string{"probe", "id"}})
		if text := fmt.Sprint(out["detail"]); !strings.Contains(text, `no user "nobody" in the image`) {
			t.Errorf("a user whom this machine has and the image has not: %v", out)
		}
	})
	t.Run("what a root is written to is forgotten, volumes with a name are kept, the image is as it was", func(t *testing.T) {
		before := snapshot(t, s.dir)
		for _, args := range [][]string{{"append", "/data/seed", "more"}, {"append", "/var/lib/kept/x", "kept"}, {"append", "/tmp/gone", "x"}} {
			service := "full"
			if args[1] == "/var/lib/kept/x" {
				out := s.local(200, "POST", "/cvms/image-0/exec", obj{"service": service, "user": "root", "command": append([]string{"probe"}, args...)})
				if out["code"] != 0.0 {
					t.Errorf("%v: %v", args, out)
				}
				continue
			}
			if got, code := s.probed("image-0", service, args...); code != 0 {
				t.Errorf("%v: %q, %d", args, got, code)
			}
		}
		s.api(200, "POST", "/cvms/image-0/restart", obj{})
		s.up("image-0")
		for args, want := range map[string]string{"cat /data/seed": "seedmore", "ls /var/lib/kept": "", "ls /tmp": ""} {
			if got, _ := s.probed("image-0", "full", strings.Fields(args)...); got != want {
				t.Errorf("after a boot: %s = %q, want %q", args, got, want)
			}
		}
		if got, _ := s.probed("image-0", "lean", "cat", "/volume/log"); got != "booted\nbooted" {
			t.Errorf("volume after a boot: %q", got)
		}
		if got := s.log(v, "full"); strings.Count(got, "got user defined signal 1") != 1 {
			t.Errorf("the image's stop signal: %q", got)
		}
		if after := snapshot(t, s.dir); after != before {
			t.Errorf("the image store was\n%s\nand is\n%s", before, after)
		}
	})
	t.Run("the registry says what it has", func(t *testing.T) {
		raw, err := json.Marshal(s.local(200, "GET", "/images", nil)["images"])
		if err != nil || strings.Count(string(raw), `"name"`) != 2 || !strings.Contains(string(raw), `"name":"lean"`) || s.file.Registry == "" {
			t.Errorf("images: %s, %v, registry %q", raw, err, s.file.Registry)
		}
	})
}

// snapshot is every name, size, mode and time in the unpacked images of a cloud.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	roots, err := filepath.Glob(filepath.Join(dir, "images", "*", "root"))
	if err != nil || len(roots) == 0 {
		t.Fatalf("unpacked images: %v, %v", roots, err)
	}
	var out strings.Builder
	for _, root := range roots {
		err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err == nil {
				fmt.Fprintln(&out, path, info.Mode(), info.Size(), info.ModTime())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestAnImageThatCannotRunIsABootError naming service and image.
func TestAnImageThatCannotRunIsABootError(t *testing.T) {
	shelf := newShelf(t)
	sum := "@sha256:" + strings.Repeat("0", 64)
	wait := v1.Config{Entrypoint: []string{"/bin/probe", "wait"}}
	good := shelf.add("good", wait)
	swapped := shelf.add("swapped", wait, imagetest.File("x", 0o644, "x"))
	device := imagetest.Entry{Header: tar.Header{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}}
	cases := map[string]struct{ image, more, want string }{
		"absent":      {"registry.example/good:1" + sum, "", "no image of that digest"},
		"tag":         {"registry.example/good:1", "", "pin it"},
		"hostile":     {shelf.add("hostile", wait, imagetest.File("../../etc/cron.d/x", 0o644, "x")), "", "out of the image"},
		"device":      {shelf.add("device", wait, device), "", "a device"},
		"no-command":  {shelf.add("no-command", v1.Config{}), "", "neither the compose file nor the image names a command"},
		"no-user":     {shelf.add("no-user", v1.Config{Entrypoint: wait.Entrypoint, User: "app"}), "", `no user "app" in the image`},
		"no-group":    {good, `, user: "0:none"`, `no group "none" in the image`},
		"signal":      {shelf.add("signal", v1.Config{Entrypoint: wait.Entrypoint, StopSignal: "SIGNOTHING"}), "", "its stop signal"},
		"health":      {shelf.add("health", v1.Config{Entrypoint: wait.Entrypoint, Healthcheck: &v1.HealthConfig{Test: []string{"what"}}}), "", "health check"},
		"busy-health": {shelf.add("busy-health", v1.Config{Entrypoint: wait.Entrypoint, Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "x"}, Interval: 1}}), "", "shorter than 1ms"},
		"swapped":     {swapped, "", "layer 2"},
		"cap-missing": {good, ", cap_add: [FLY]", "is no capability"},
	}
	manifest := manifestOf(t, shelf.layout, swapped)
	layer := filepath.Join(shelf.layout, "blobs/sha256", manifest.Layers[1].Digest.Hex)
	if err := os.WriteFile(layer, imagetest.Archive(t, imagetest.File("x", 0o644, "y")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir(), shelf.use)
	for name, c := range cases {
		p := s.api(200, "POST", "/cvms/provision", obj{"name": "bad-" + name, "compose_file": obj{"docker_compose_file": "services: {app: {image: \"" + c.image + "\", network_mode: host" + c.more + "}}"}})
		s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	}
	for name, c := range cases {
		v, text := s.settled("bad-"+name), ""
		s.until(name+" has a boot error", func() bool {
			text, _ = s.local(200, "GET", "/cvms/bad-"+name, nil)["boot_error"].(string)
			return text != ""
		})
		status := "stopped"
		if slices.Contains([]string{"absent", "tag", "hostile", "device", "swapped"}, name) {
			status = "running" // a guest that cannot have an image stays up
		}
		if v["status"] != status || !strings.Contains(text, "service app: ") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, boot error %v, want %q", name, v["status"], text, c.want)
		}
	}
}

func manifestOf(t *testing.T, layout, ref string) *v1.Manifest {
	t.Helper()
	_, hex, _ := strings.Cut(ref, "@sha256:")
	f, err := os.Open(filepath.Join(layout, "blobs/sha256", hex))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := v1.ParseManifest(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLinksOfAnImageLeadNowhereElse: mount points go where a process of the image would
// find them, and never onto this machine.
func TestLinksOfAnImageLeadNowhereElse(t *testing.T) {
	shelf := newShelf(t)
	victim := t.TempDir()
	wait := v1.Config{Entrypoint: []string{"/bin/probe", "wait"}, WorkingDir: "/work/made"}
	links := shelf.add("links", wait,
		imagetest.Link("mnt", "/oldroot"+victim), imagetest.Link("up", "../../../../../.."+victim), imagetest.Link("etc/hosts", "/oldroot"+victim+"/hosts"),
		imagetest.Link("work", victim),
	)
	s := start(t, t.TempDir(), shelf.use)
	s.create("links-0", `
services:
  app:
    image: `+links+`
    network_mode: host
    volumes: ["one:/mnt/a", "two:/up/b/c"]
    tmpfs: [/up/t]
volumes: {one: {}, two: {}}
`)
	if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
		t.Errorf("on this machine: %v, %v", entries, err)
	}
	for args, want := range map[string]string{"ls /mnt": "a hosts", "ls " + victim: "b made t", "ls /up/b": "c"} {
		if got, code := s.probed("links-0", "app", strings.Fields(args)...); got != want || code != 0 {
			t.Errorf("%s = %q, %d, want %q", args, got, code, want)
		}
	}
	dev := shelf.add("dev", wait, imagetest.Link("dev", "/oldroot"+victim))
	p := s.api(200, "POST", "/cvms/provision", obj{"name": "links-1", "compose_file": obj{"docker_compose_file": "services: {app: {image: \"" + dev + "\", network_mode: host}}"}})
	s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	s.until("a service whose /dev leads away has ended", func() bool {
		_, v := s.call("GET", s.file.LocalURL+"/cvms/links-1", nil)
		list, _ := v["services"].([]any)
		return len(list) == 1 && list[0].(obj)["state"] == "exited" && list[0].(obj)["exit_code"] == 125.0
	})
	if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
		t.Errorf("on this machine: %v, %v", entries, err)
	}
}

// TestAPinnedImageGoesBeforeMappedPrograms: mapped programs replace only a digest without an image,
// such as a digest of the programs themselves.
func TestAPinnedImageGoesBeforeMappedPrograms(t *testing.T) {
	shelf := newShelf(t)
	pinned := shelf.add("app", v1.Config{Entrypoint: []string{"/bin/probe", "id", "wait"}})
	name, _, _ := strings.Cut(pinned, ":1@")
	s := start(t, t.TempDir(), shelf.use, func(c *Config) {
		c.Images = images.Map{Images: map[string]images.Image{name: {Entrypoint: []string{"sh", "-c", "echo mapped; exec sleep 1000"}}}}
	})
	v := s.create("pinned-0", `
services:
  image: {image: "`+pinned+`", network_mode: host}
  program: {image: "`+name+"@sha256:"+strings.Repeat("0", 64)+`", network_mode: host}
  tagged: {image: "`+name+`:1", network_mode: host}
`)
	for service, want := range map[string]string{"image": "probe 0 0 [] / / \nwaits\n", "program": "mapped\n", "tagged": "mapped\n"} {
		s.until(service+" has spoken", func() bool { return len(s.log(v, service)) >= len(want) })
		if got := s.log(v, service); !strings.HasPrefix(got, want) {
			t.Errorf("%s says %q, want %q", service, got, want)
		}
	}
}

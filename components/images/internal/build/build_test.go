package build

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cadre.dev/images/internal/oci"
)

const files = `
layer "base" {
  description = "a package"
  debs        = ["hello"]
  drop        = ["usr/share/man/**"]

  user "root" { id = 0 }
  directory "tmp" { mode = "1777" }
  link "bin" { target = "usr/bin" }
}
`

const image = `
image "greeter" {
  from        = "base"
  description = "a program"

  program "greet" {
    module  = "components/greet"
    package = "cmd/greet"
  }
  prebuilt "carried" {
    wheel = "carrier==2"
    file  = "carrier/bin/carried"
  }
  file "usr/share/doc/carried/copyright" { content = "Format: x\nLicense: ISC\n" }
  user "greeter" { id = 7 }
  directory "var/lib/greeter" {
    mode  = "0700"
    owner = "7:7"
  }

  run_as     = "7:7"
  entrypoint = ["/usr/local/bin/greet"]
  ports      = ["80/tcp"]
}
`

// hello is a package with a program, a link and a manual.
func hello(t *testing.T) []byte {
	t.Helper()
	archive := func(names ...string) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, name := range names {
			name, text, _ := strings.Cut(name, "=")
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar", archive("./control=Package: hello\nVersion: 1\nArchitecture: amd64\n")},
		{"data.tar", archive("./bin/hello=#!/bin/sh\n", "./usr/share/man/hello.1=manual", "./usr/share/doc/hello/copyright=Format: x\nLicense: Expat\n")},
	} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		out.Write(m.data)
		if len(m.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// carrier is a wheel with a program in it.
func carrier(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range []struct{ name, text string }{
		{"carrier/__init__.py", ""}, {"carrier/bin/carried", "#!/bin/carried\n"},
		{"carrier-2.dist-info/METADATA", "Name: carrier\nVersion: 2\nLicense-Expression: BSD-2-Clause\n"},
		{"carrier-2.dist-info/entry_points.txt", "[console_scripts]\ncarried = carrier:main\n"},
	} {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// repository makes one in dir, with everything that it needs in a cache.
func repository(t *testing.T, dir, cache string) {
	t.Helper()
	if !strings.HasPrefix(runtime.Version(), "go1.") {
		t.Skipf("this toolchain is %s, no release that can be pinned", runtime.Version())
	}
	pkg, wheel := hello(t), carrier(t)
	digest, carried := hexSum(pkg), hexSum(wheel)
	for name, text := range map[string]string{
		dir + "/go.work": "go 1.26.0\n\nuse ./components/greet\n", dir + "/LICENSE": "a licence",
		dir + "/components/greet/go.mod":            "module cadre.dev/greet\n\ngo 1.26.0\n",
		dir + "/components/greet/cmd/greet/main.go": "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n",
		dir + "/" + Recipes + "/pins.hcl":           fmt.Sprintf("toolchain = %q\nversion = \"dev\"\nsuite = \"x\"\npython = \"3.11\"\n", strings.Fields(runtime.Version())[0]),
		dir + "/" + Recipes + "/base.hcl":           files, dir + "/" + Recipes + "/greeter.hcl": image,
		dir + "/" + Recipes + "/base.lock":    fmt.Sprintf("time 2026-01-02T03:00:00Z\ndeb hello 1 %s %d debian/pool/main/h/hello/hello_1_amd64.deb\n", digest, len(pkg)),
		dir + "/" + Recipes + "/greeter.lock": fmt.Sprintf("time 2026-01-02T03:00:00Z\nwheel carrier 2 %s %d carrier-2-py3-none-any.whl\n", carried, len(wheel)),
		cache + "/sha256/" + digest:           string(pkg), cache + "/sha256/" + carried: string(wheel),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func options(root, out, cache string) Options {
	return Options{Root: root, Out: out, Cache: cache, Env: func(string) string { return "" }, Say: func(string) {}}
}

func TestTheSameSourcesGiveTheSameDigest(t *testing.T) {
	cache := t.TempDir()
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "another name", "two")
	var digests [2]string
	for i, root := range []string{one, two} {
		repository(t, root, cache)
		got, err := Run(t.Context(), options(root, filepath.Join(root, "images"), cache))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Ref != "greeter:dev" {
			t.Fatalf("%+v", got)
		}
		digests[i] = got[0].Digest
		t.Setenv("TZ", "Asia/Kathmandu")
		t.Setenv("GOFLAGS", "-tags=other")
	}
	if digests[0] != digests[1] {
		t.Errorf("%s and %s", digests[0], digests[1])
	}
	if err := compare(filepath.Join(one, "images"), filepath.Join(two, "images")); err != nil {
		t.Error(err)
	}

	// Another version is another program, and compare names it.
	o := options(two, filepath.Join(two, "later"), cache)
	o.Version = "1.0"
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := compare(filepath.Join(one, "images"), o.Out); err == nil || !strings.Contains(err.Error(), "greeter:dev is not in the second build") {
		t.Errorf("got %v", err)
	}
}

// A second build of the same inputs does nothing; a changed input or layout is built again.
func TestNothingIsBuiltTwice(t *testing.T) {
	root, cache := filepath.Join(t.TempDir(), "r"), t.TempDir()
	repository(t, root, cache)
	o := options(root, filepath.Join(root, "images"), cache)
	said := ""
	o.Say = func(line string) { said += line + "\n" }
	same := func(what string, want bool) []Result {
		t.Helper()
		said = ""
		got, err := Run(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if is := strings.Contains(said, "nothing has changed"); is != want {
			t.Errorf("%s: built nothing is %v, want %v", what, is, want)
		}
		return got
	}
	first := same("the first build", false)
	if again := same("the same again", true); len(again) != 1 || again[0] != first[0] {
		t.Errorf("%+v, then %+v", first, again)
	}
	change := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("components/greet/cmd/greet/main.go", "package main\n\nvar version = \"none\"\n\nfunc main() { println(version, 1) }\n")
	if second := same("another program", false); second[0].Digest == first[0].Digest {
		t.Error("another program is the same image")
	}
	change(Recipes+"/greeter.hcl", strings.Replace(image, "80/tcp", "81/tcp", 1))
	same("another recipe", false)
	change("LICENSE", "another licence")
	same("another licence", false)
	o.Source = "a commit"
	same("another commit", false)
	blobs, err := filepath.Glob(filepath.Join(o.Out, "blobs/sha256/*"))
	if err != nil || len(blobs) == 0 {
		t.Fatal(blobs, err)
	}
	if err := os.Truncate(blobs[0], 1); err != nil {
		t.Fatal(err)
	}
	same("a layout that lost bytes", false)
	same("the layout made whole", true)
	if err := os.RemoveAll(o.Out + "-about"); err != nil {
		t.Fatal(err)
	}
	same("without what is said about the images", false)
}

func TestAnImageHasWhatItsRecipeSays(t *testing.T) {
	root, cache := filepath.Join(t.TempDir(), "r"), t.TempDir()
	repository(t, root, cache)
	o := options(root, filepath.Join(root, "images"), cache)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	images, err := oci.ReadLayout(o.Out)
	if err != nil || len(images) != 1 {
		t.Fatalf("%v %v", images, err)
	}
	config, err := images[0].Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "7:7" || config.Config.Entrypoint[0] != "/usr/local/bin/greet" || config.Created.Format("2006") != "2026" {
		t.Errorf("%+v", config.Config)
	}
	got := contents(t, images[0].Image)
	for name, want := range map[string]string{
		"bin": "-> usr/bin", "usr/bin/hello": "0755 0:0 #!/bin/sh\n", "etc/passwd": "0644 0:0 root:x:0:0:root:/nonexistent:/usr/sbin/nologin\ngreeter:x:7:7:greeter:/nonexistent:/usr/sbin/nologin\n",
		"var/lib/greeter/": "0700 7:7 ", "tmp/": "1777 0:0 ", "var/lib/dpkg/status.d/hello": "0644 0:0 Package: hello\nVersion: 1\nArchitecture: amd64\n",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if _, ok := got["usr/share/man/hello.1"]; ok {
		t.Error("what the recipe drops is there")
	}
	if !strings.HasPrefix(got["usr/local/bin/greet"], "0755 0:0 \x7fELF") || !strings.Contains(got["usr/share/doc/greet/modules"], "stdlib") {
		t.Error("no program, or no licences of its modules")
	}
	// Of a wheel that carries a program, that alone: no module, no script.
	if got["usr/local/bin/carried"] != "0755 0:0 #!/bin/carried\n" {
		t.Errorf("carried: %q", got["usr/local/bin/carried"])
	}
	for name := range got {
		if strings.Contains(name, "carrier") {
			t.Errorf("the image has %s of the wheel", name)
		}
	}
	sbom, err := os.ReadFile(filepath.Join(o.Out+"-about", "greeter.spdx.json"))
	for _, want := range []string{"pkg:generic/carried@2", `"licenseDeclared": "ISC"`, hexSum([]byte("#!/bin/carried\n"))} {
		if err != nil || !bytes.Contains(sbom, []byte(want)) {
			t.Errorf("SBOM: %v, no %s in\n%s", err, want, sbom)
		}
	}
	provenance, err := os.ReadFile(filepath.Join(o.Out+"-about", "greeter.provenance.json"))
	for _, want := range []string{"pkg:pypi/carrier@2", "program carried", hexSum([]byte("#!/bin/carried\n"))} {
		if err != nil || !bytes.Contains(provenance, []byte(want)) {
			t.Errorf("provenance: %v, no %s in\n%s", err, want, provenance)
		}
	}
	if !bytes.Contains(sbom, []byte("pkg:deb/debian/hello@1?arch=amd64")) || !bytes.Contains(sbom, []byte(`"licenseDeclared": "MIT"`)) {
		t.Errorf("SBOM:\n%s", sbom)
	}
	if len(images[0].About) != 2 {
		t.Errorf("%d documents", len(images[0].About))
	}
}

// contents describes every file of an image, upper layers over lower ones.
func contents(t *testing.T, img *oci.Image) map[string]string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(r)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			got[h.Name] = fmt.Sprintf("%04o %d:%d %s", h.Mode, h.Uid, h.Gid, data)
			if h.Typeflag == tar.TypeSymlink {
				got[h.Name] = "-> " + h.Linkname
			}
		}
		_ = r.Close()
	}
	return got
}

func TestRunRefusesWhatItDoesNotKnow(t *testing.T) {
	root, cache := filepath.Join(t.TempDir(), "r"), t.TempDir()
	repository(t, root, cache)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"image":   {func(o *Options) { o.Only = []string{"greter"} }, `--only: no image is called "greter"; there are greeter`},
		"version": {func(o *Options) { o.Version = "a b" }, "--version"},
		"root":    {func(o *Options) { o.Root = t.TempDir() }, "has no recipes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(root, filepath.Join(root, "images"), cache)
			c.change(&o)
			if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

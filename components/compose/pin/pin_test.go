package pin

import (
	"strings"
	"testing"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestATT16_PinKeepsEverythingElse(t *testing.T) {
	const text = "# é header\r\nservices:\n  web:   # the web\n    image:   nginx:1.27   # keep me\n    command: [echo, \"nginx:1.27\"]\n" +
		"  'db': {restart: always, \"image\": \"pg:15\", x-é: 'ü' }\n  c:\n    image: 'redis:7'\n  d:\n    image: \"x:1" + digest + "\"\n"
	images, err := Images([]byte(text))
	if err != nil || len(images) != 4 {
		t.Fatalf("%+v, %v", images, err)
	}
	if images[0].Line != 4 || images[0].Pinned() || !images[3].Pinned() || images[3].Tagged() != "x:1" || images[0].Tagged() != "nginx:1.27" {
		t.Errorf("images %+v", images)
	}
	if !images[0].HasTag() || (Image{Reference: "localhost:5000/x" + digest}).HasTag() {
		t.Error("HasTag takes a port for a tag, or misses one")
	}
	out, err := Write([]byte(text), map[string]string{"web": "nginx:1.27" + digest, "db": "pg:15" + digest, "c": "redis:7" + digest})
	if err != nil {
		t.Fatal(err)
	}
	want := text
	for old, pinned := range map[string]string{"image:   nginx:1.27": "image:   nginx:1.27" + digest, "\"pg:15": "\"pg:15" + digest, "'redis:7": "'redis:7" + digest} {
		want = strings.Replace(want, old, pinned, 1)
	}
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestATT16_PinRefusesWhatItCannotEdit(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"variable":     {"services:\n  a:\n    image: ${I}\n", "3:12: the image of service a is \"${I}\", with a variable"},
		"escape":       {"services:\n  a:\n    image: \"a\\x62\"\n", "not written plainly"},
		"anchor":       {"services:\n  a:\n    image: &i a\n", "not written plainly"},
		"alias":        {"x: &i a\nservices:\n  a:\n    image: *i\n", "not one word"},
		"tag":          {"services:\n  a:\n    image: !!str a\n", "not written plainly"},
		"block scalar": {"services:\n  a:\n    image: >-\n      a\n", "not written plainly"},
		"no image":     {"services:\n  a:\n    build: .\n", "2:3: service a names no image"},
		"no services":  {"a: b\n", "no services"},
		"empty":        {"", "is empty"},
		"not YAML":     {"a: [", "not YAML"},
		"not UTF-8":    {"a: \xff", "UTF-8"},
		"too large":    {strings.Repeat("#", MaxSize+1), "at most"},
	} {
		if got, err := Images([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, c.want)
		}
	}
}

// A written text has the wanted images and no other byte changed.
func FuzzWrite(f *testing.F) {
	f.Add("services:\n  a:\n    image: \"nginx\" # x\n  b: {image: 'é:1'}\n")
	f.Add("? services\n: a: {image: x, b: c}\n")
	f.Fuzz(func(t *testing.T, text string) {
		images, err := Images([]byte(text))
		if err != nil || len(images) == 0 {
			return
		}
		ref := images[0].Reference + digest
		out, err := Write([]byte(text), map[string]string{images[0].Service: ref})
		if err != nil {
			return // refused, and nothing is written
		}
		if len(out) < len(text) || !strings.Contains(string(out), ref) {
			t.Errorf("%q became %q", text, out)
		}
	})
}

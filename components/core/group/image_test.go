package group

import (
	"strings"
	"testing"
)

func TestATT16_PinnedImagesAreRead(t *testing.T) {
	compose := "# a comment\n---\nname: demo\nx-common: &common\n  restart: unless-stopped\nservices:\n" +
		"  web:\n    # its image\n    image: \"nginx" + digest + "\"  # pinned\n    ports:\n    - \"80:80\"\n    - image: not-an-image\n" +
		"    command: [\n      \"a\",\n    ]\n    environment:\n      <<: *common\n      image: also-not\n\n" +
		"  db:\n    'image' : 'pg:15" + digest + "'\n    entrypoint: |\n      image: in a text\n        build: .\n" +
		"volumes:\n  image: {}\nconfigs:\n  a:\n    content: |\n      services:\n        x:\n          image: text\n"
	images, problems := ComposeImages(compose)
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}
	if len(images) != 2 || images[0].Service != "web" || images[0].Image != "nginx"+digest || images[1].Service != "db" || images[1].Line != 21 {
		t.Errorf("images %+v", images)
	}
}

// An anchor names a service's block, and does not change its content.
func TestATT16_AnchoredServicesAreRead(t *testing.T) {
	images, problems := ComposeImages("services: &all\n  first: &member # the first\n    image: x" + digest + "\n    environment: &env\n      A: b\n  second:\n    image: x" + digest + "\n")
	if len(problems) > 0 || len(images) != 2 || images[0].Service != "first" || images[0].Line != 3 {
		t.Errorf("images %+v, problems %v", images, problems)
	}
	for _, value := range []string{"&", "&a b", "&a{}", "&a {}", "&a *b", "& a", "&a\tb"} {
		if _, problems := ComposeImages("services:\n  first: " + value + "\n    image: x" + digest + "\n"); len(problems) != 1 || problems[0].Line != 2 {
			t.Errorf("%s: %v", value, problems)
		}
	}
}

func TestATT16_AServiceThatIsRefusedIsOneProblem(t *testing.T) {
	pinned := "    image: x" + digest + "\n"
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"a service by alias":     {"services:\n  a: &a\n" + pinned + "  b: *a\n", 4},
		"a service on one line":  {"services:\n  a: {\n    image: x\n  }\n  b:\n" + pinned, 2},
		"a merge with the image": {"services:\n  a: &a\n" + pinned + "  b:\n    <<: *a\n    hostname: b\n", 5},
		"a service twice":        {"services:\n  a:\n" + pinned + "  a:\n" + pinned + "    hostname: b\n", 4},
	} {
		if _, problems := ComposeImages(c.text); len(problems) != 1 || problems[0].Line != c.line {
			t.Errorf("%s: problems %v, want one in line %d", name, problems, c.line)
		}
	}
}

func TestATT16_AnUnpinnedImageIsRefused(t *testing.T) {
	one := func(lines ...string) string {
		return "services:\n  a:\n    " + strings.Join(lines, "\n    ") + "\n"
	}
	good := "image: x" + digest
	for name, text := range map[string]string{
		"a tag":                    one("image: nginx:1.2"),
		"a bare name":              one("image: nginx"),
		"a variable":               one("image: ${IMAGE}" + digest),
		"a variable digest":        one("image: nginx@sha256:$D"),
		"a short digest":           one("image: nginx@sha256:abcd"),
		"an upper-case digest":     one("image: nginx@sha256:" + strings.Repeat("AB", 32)),
		"no name before":           one("image: \"@sha256:" + strings.Repeat("ab", 32) + "\""),
		"an anchor":                one("image: &i nginx" + digest),
		"an alias":                 one("image: *i"),
		"no value":                 one("image:"),
		"a value on the next line": one("image:\n      nginx" + digest),
		"a folded value":           one("image: nginx"+digest, "  more"),
		"a block value":            one("image: >-\n      nginx" + digest),
		"a build":                  one(good, "build: ."),
		"a build alone":            one("build: ."),
		"a merge":                  one(good, "<<: *x"),
		"an extends":               one(good, "extends: other"),
		"two images":               one(good, good),
		"an escaped key":           one(good, "\"im\\x61ge\": nginx"),
		"a tagged key":             one(good, "!!str image: nginx"),
		"a complex key":            one(good, "? image", ": nginx"),
		"a service without image":  one(good) + "  b:\n    command: x\n",
		"a service on one line":    "services:\n  a: {image: nginx}\n",
		"a service by alias":       "services:\n  a: *x\n",
		"services on one line":     "services: {a: {image: nginx}}\n",
		"services twice":           one(good) + one("image: nginx"),
		"a service twice":          one(good) + "  a:\n    " + good + "\n",
		"two documents":            one(good) + "---\n" + one("image: nginx"),
		"JSON":                     `{"services":{"a":{"image":"nginx"}}}`,
		"an include":               "include:\n  - other.yaml\n" + one(good),
		"a merge at the top":       "<<: *x\n" + one(good),
		"a directive":              "%YAML 1.2\n---\n" + one(good),
		"no services":              "name: x\n",
		"empty services":           "services:\n",
		"services as a list":       "services:\n- a\n",
		"an uneven service":        "services:\n    a:\n      " + good + "\n  b:\n      " + good + "\n",
		"an uneven key":            "services:\n  a:\n      " + good + "\n    build: .\n",
		"a tab":                    "services:\n\ta:\n\t\timage: nginx\n",
		"a lone carriage return":   one(good + "\rbuild: ."),
		"a line separator":         one(good + "\u2028    build: ."),
		"a next-line character":    one(good + "\u0085    build: ."),
		"a byte order mark":        "\uFEFF" + one(good),
		"a zero byte":              one(good) + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if images, problems := ComposeImages(text); len(problems) == 0 {
				t.Errorf("accepted with images %+v:\n%s", images, text)
			}
		})
	}
}

func TestATT16_WindowsNewlinesAreRead(t *testing.T) {
	if _, problems := ComposeImages(strings.ReplaceAll(goodCompose(), "\n", "\r\n")); len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
}

func TestATT16_ProblemsReachTheSpec(t *testing.T) {
	s := goodSpec()
	s.Template.Compose = "services:\n  a:\n    image: nginx:latest\n"
	wantProblem(t, s, "template.compose", "ATT-16")
}

func FuzzComposeImages(f *testing.F) {
	f.Add(goodCompose())
	f.Add("services:\n  a:\n    image: x\n  \"b\":\n    build: .\n")
	f.Fuzz(func(t *testing.T, text string) {
		images, problems := ComposeImages(text)
		if len(problems) == 0 && len(images) == 0 {
			t.Errorf("neither image nor problem in %q", text)
		}
		for _, i := range images {
			if ImageProblem(i.Image) != "" {
				t.Errorf("image %q is not pinned", i.Image)
			}
		}
	})
}

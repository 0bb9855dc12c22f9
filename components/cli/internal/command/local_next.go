package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/client/format"
)

// started is the result of `cadre local up`.
type started struct {
	info     localcloud.Info
	began    bool
	dir      string
	moved    []string
	checkout string
	images   []localcloud.Image
	cvms     int
	// cluster is the named cluster, if any.
	cluster *localcloud.Cluster
}

// defaults are the daemon's flags for a new cloud that was given none: the images of the
// checkout, or its programs.
func defaults(dir, checkout string, programs bool, given []string) ([]string, error) {
	explicit := slices.Contains(given, "--images") || slices.Contains(given, "--layout")
	switch {
	case programs && explicit:
		return nil, errors.New("--programs: not with --images or --layout, which say what CVMs run")
	case programs && !localcloud.IsNew(dir):
		return nil, fmt.Errorf("--programs: the cloud of %s existed before, and its CVMs' compose files name their programs; leave it out, or give another --state", dir)
	case explicit || !localcloud.IsNew(dir):
		return nil, nil
	case checkout == "":
		return nil, errors.New("the programs of CVMs are unknown: give --layout, a folder of images, or --images, a map to programs of this machine, or run this in a checkout of Cadre")
	case programs:
		return programDefaults(dir, checkout)
	case !localcloud.HasImages(checkout):
		return nil, fmt.Errorf("there are no images in %s: run `make images`, or let CVMs run the checkout's programs with --programs", localcloud.Layout(checkout))
	}
	// A start with --programs that failed has left its map.
	if err := os.Remove(localcloud.ProgramMap(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("forget the programs of a start that failed: %w", err)
	}
	return []string{"--layout", localcloud.Layout(checkout)}, nil
}

// programDefaults leaves the map of the checkout's programs in the state folder.
func programDefaults(dir, checkout string) ([]string, error) {
	found, err := localcloud.ReadPrograms(checkout)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	if err := found.Write(localcloud.ProgramMap(dir)); err != nil {
		return nil, err
	}
	return []string{"--images", localcloud.ProgramMap(dir)}, nil
}

// look asks the cloud for its content.
func (s *started) look(ctx context.Context) {
	api := localcloud.NewAPI(s.info)
	if images, err := api.Images(ctx); err == nil {
		s.images = images
	}
	if list, err := api.CVMs(ctx); err == nil {
		s.cvms = len(list)
	}
}

// image is the pinned reference for a variable such as agent_image: an image of the cloud's
// registry, or the checkout's programs where the cloud runs them.
func (s *started) image(variable string) (string, error) {
	short := strings.ReplaceAll(strings.TrimSuffix(variable, "_image"), "_", "-")
	if s.programs() {
		found, err := localcloud.ReadPrograms(s.checkout)
		if err != nil {
			return "", err
		}
		return found.Reference("cadre/" + short)
	}
	for _, image := range s.images {
		if shortName(image.Name) == short {
			return s.reference(image), nil
		}
	}
	return "", errors.New("the cloud has no such image")
}

// programs reports whether the cloud runs the checkout's programs.
func (s *started) programs() bool { return s.checkout != "" && localcloud.RunsPrograms(s.dir) }

// shortName is how variables and keys of pinned name an image: cadre-agent is agent.
func shortName(image string) string { return strings.TrimPrefix(image, "cadre-") }

func (s *started) reference(image localcloud.Image) string {
	return s.info.Registry + "/" + image.Name + ":" + image.Tag + "@" + image.Digest
}

// pinned are the references of all that CVMs can run, by short name.
func (s *started) pinned() (map[string]string, error) {
	out := map[string]string{}
	if s.programs() {
		found, err := localcloud.ReadPrograms(s.checkout)
		if err != nil {
			return nil, err
		}
		for _, name := range found.Names() {
			ref, err := found.Reference(name)
			if err != nil {
				return nil, err
			}
			out[strings.TrimPrefix(name, "cadre/")] = ref
		}
		return out, nil
	}
	for _, image := range s.images {
		out[shortName(image.Name)] = s.reference(image)
	}
	return out, nil
}

func (s *started) text() string {
	word := "started"
	if !s.began {
		word = "runs already"
	}
	cloud := localcloud.CloudFile(s.dir)
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("local cloud %s", word)
	line("  api       %s", s.info.APIURL)
	line("  gateway   %s, for names below %s", s.info.GatewayAddress, s.info.GatewayDomain)
	if s.info.Registry != "" {
		line("  registry  %s, %s", s.info.Registry, count(len(s.images), "image"))
	}
	if s.programs() {
		line("  programs  of %s, in place of images", s.checkout)
	}
	line("  CVMs      %d", s.cvms)
	line("  facts     %s", cloud)
	line("  log       %s", localcloud.LogFile(s.dir))
	at, program := localcloud.At(s.dir), format.Word(self())
	for _, path := range s.moved {
		line("context %s names its new addresses now", path)
	}
	line("\nnext")
	if s.cluster != nil {
		lines, problems := s.cluster.Commands(localcloud.Facts{Program: self(), CloudFile: cloud, Image: s.image, Programs: s.programs()})
		for _, text := range lines {
			line("  %s", text)
		}
		for _, problem := range problems {
			line("not filled in: %v", problem)
		}
	} else {
		for _, name := range localcloud.Clusters(s.checkout) {
			line("  %s local up%s %s   # says how to make that cluster", program, at, name)
		}
		line("  %s cluster create FILE --var %s", program, format.Word("cloud="+cloud))
	}
	line("  %s local status%s", program, at)
	if s.info.GatewayCAFile != "" {
		_, port, _ := strings.Cut(s.info.GatewayAddress, ":")
		name := "APP-PORT." + s.info.GatewayDomain
		line("  curl --cacert %s --resolve %s:%s:%s https://%s:%s/   # a CVM's plain port by HTTPS",
			format.Word(s.info.GatewayCAFile), name, port, strings.TrimSuffix(s.info.GatewayAddress, ":"+port), name, port)
	}
	return out.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// self is this program as it was called.
func self() string {
	if len(os.Args) > 0 && strings.Contains(os.Args[0], "/") {
		return os.Args[0]
	}
	return "cadre"
}

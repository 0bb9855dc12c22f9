package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/cli/internal/localcloud"
)

// started is what `cadre local up` has to tell.
type started struct {
	info     localcloud.Info
	began    bool
	dir      string
	moved    []string
	checkout string
	images   []localcloud.Image
	cvms     int
	// cluster is the one that was named, if any.
	cluster *localcloud.Cluster
}

// defaults are the daemon's flags for a new cloud that was given none: the images and
// programs of the checkout.
func defaults(dir, checkout string, given []string) ([]string, error) {
	if !localcloud.IsNew(dir) || slices.Contains(given, "--images") || slices.Contains(given, "--layout") {
		return nil, nil
	}
	if checkout == "" {
		return nil, errors.New("nothing says what CVMs run: give --layout, a folder of images, or --images, a map to programs of this machine, or run this in a checkout of Cadre")
	}
	programs, err := localcloud.ReadPrograms(checkout)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	file := filepath.Join(dir, "programs.json")
	if err := programs.Write(file); err != nil {
		return nil, err
	}
	return []string{"--images", file, "--layout", localcloud.Layout(checkout)}, nil
}

// look asks the cloud what it has.
func (s *started) look(ctx context.Context) {
	api := localcloud.NewAPI(s.info)
	if images, err := api.Images(ctx); err == nil {
		s.images = images
	}
	if list, err := api.CVMs(ctx); err == nil {
		s.cvms = len(list)
	}
}

// image is the pinned reference for a variable such as agent_image: the checkout's own
// programs, which need no unpacking, or else an image of the cloud's registry.
func (s *started) image(variable string) (string, error) {
	short := strings.ReplaceAll(strings.TrimSuffix(variable, "_image"), "_", "-")
	var missing error
	if s.checkout != "" {
		programs, err := localcloud.ReadPrograms(s.checkout)
		if err != nil {
			return "", err
		}
		ref, err := programs.Reference("cadre/" + short)
		if err == nil {
			return ref, nil
		}
		missing = err
	}
	for _, image := range s.images {
		if image.Name == short || image.Name == "cadre-"+short {
			return s.info.Registry + "/" + image.Name + ":" + image.Tag + "@" + image.Digest, nil
		}
	}
	if missing == nil {
		missing = errors.New("the cloud has no such image")
	}
	return "", missing
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
	line("  CVMs      %d", s.cvms)
	line("  facts     %s", cloud)
	line("  log       %s", localcloud.LogFile(s.dir))
	for _, path := range s.moved {
		line("context %s names its new addresses now", path)
	}
	line("\nnext")
	if s.cluster != nil {
		lines, problems := s.cluster.Commands(localcloud.Facts{Program: self(), CloudFile: cloud, Image: s.image})
		for _, text := range lines {
			line("  %s", text)
		}
		for _, problem := range problems {
			line("not filled in: %v", problem)
		}
	} else {
		for _, name := range localcloud.Clusters(s.checkout) {
			line("  %s local up %s   # says how to make that cluster", self(), name)
		}
		line("  %s cluster create FILE --var cloud=%s", self(), cloud)
	}
	line("  %s local status", self())
	if s.info.GatewayCAFile != "" {
		_, port, _ := strings.Cut(s.info.GatewayAddress, ":")
		name := "APP-PORT." + s.info.GatewayDomain
		line("  curl --cacert %s --resolve %s:%s:%s https://%s:%s/   # a CVM's plain port by HTTPS",
			s.info.GatewayCAFile, name, port, strings.TrimSuffix(s.info.GatewayAddress, ":"+port), name, port)
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

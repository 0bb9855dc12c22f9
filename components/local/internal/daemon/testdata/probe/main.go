// Command probe is the only program of the images of tests: it carries out commands and reports its
// observations.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(self string, args []string) error {
	for len(args) > 0 {
		n := 2
		switch args[0] {
		case "id":
			groups, err := os.Getgroups()
			if err != nil {
				return err
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			fmt.Println(self, os.Getuid(), os.Getgid(), groups, dir, os.Getenv("HOME"), os.Getenv("GREETING"))
			n = 1
		case "caps":
			raw, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(raw)) {
				if strings.HasPrefix(line, "CapEff") || strings.HasPrefix(line, "CapBnd") || strings.HasPrefix(line, "NoNewPrivs") {
					fmt.Println(strings.Join(strings.Fields(line), " "))
				}
			}
			n = 1
		case "files":
			var l syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
				return err
			}
			fmt.Println(l.Cur, l.Max)
			n = 1
		case "ls":
			entries, err := os.ReadDir(args[1])
			if err != nil {
				return err
			}
			for _, e := range entries {
				fmt.Print(e.Name(), " ")
			}
			fmt.Println()
		case "stat":
			info, err := os.Stat(args[1])
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			fmt.Println(args[1], info.Mode(), st.Uid, st.Gid)
		case "cat":
			raw, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			fmt.Println(strings.TrimSpace(string(raw)))
		case "room":
			var st syscall.Statfs_t
			if err := syscall.Statfs(args[1], &st); err != nil {
				return err
			}
			fmt.Println(int64(st.Blocks)*st.Bsize, st.Files)
		case "append":
			f, err := os.OpenFile(args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			if _, err := f.WriteString(args[2] + "\n"); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
			n = 3
		case "wait":
			got := make(chan os.Signal, 1)
			signal.Notify(got, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
			fmt.Println("waits")
			fmt.Println("got", <-got)
			n = 1
		case "sleep":
			time.Sleep(time.Hour)
		default:
			return fmt.Errorf("%s: what is %q?", self, args[0])
		}
		args = args[n:]
	}
	return nil
}

//go:build !linux

package punch

import (
	"errors"
	"net"
	"syscall"
)

func shared(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

func sharedAbrupt(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

func shorten(*net.TCPListener) error { return errors.ErrUnsupported }

func info(*net.TCPConn) (Info, error) { return Info{}, errors.ErrUnsupported }

func setCongestion(*net.TCPConn, string) error { return errors.ErrUnsupported }

package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// Exit codes, also in the help text of the root command.
const (
	// ExitOK: done.
	ExitOK = 0
	// ExitError: something broke.
	ExitError = 1
	// ExitUsage: the command line is wrong.
	ExitUsage = 2
	// ExitRefused: validation, a policy, a permission or a proof said no.
	ExitRefused = 3
	// ExitNotFound: there is no such group, slot or cluster.
	ExitNotFound = 4
	// ExitRollout: the rollout that was waited for failed, paused or was replaced, or the
	// operation failed.
	ExitRollout = 5
	// ExitTimeout: the time was up; the operation continues.
	ExitTimeout = 6
	// ExitNeedsPerson: `cadre status` found that a person is needed.
	ExitNeedsPerson = 7
)

const exitHelp = `Exit codes:
  0  done
  1  error
  2  wrong usage
  3  refused: validation, policy, permission, conflict, or a coordinator that cannot prove itself
  4  not found
  5  the rollout that was waited for failed, was paused or was superseded; the
     operation that was waited for failed or was called off
  6  timeout; the begun change goes on
  7  cadre status: a person is needed`

// usageError is a wrong command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// late is the end of --timeout, in its own words.
type late struct{ error }

func (l late) Is(target error) bool { return target == context.DeadlineExceeded }

func latef(format string, args ...any) error { return late{fmt.Errorf(format, args...)} }

// silent ends with a code and no message: everything was said already.
type silent struct{ code int }

func (s silent) Error() string { return "" }

// Code is the exit code for err.
func Code(err error) int {
	var (
		usage   usageError
		quiet   silent
		rollout *client.RolloutError
		step    *client.OperationError
		file    *groupfile.Error
		called  *client.Error
		local   *localcloud.StatusError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &rollout), errors.As(err, &step):
		return ExitRollout
	case errors.As(err, &file), errors.Is(err, group.ErrInvalid):
		return ExitRefused
	case errors.As(err, &called):
		switch called.Kind {
		case client.Invalid, client.Denied, client.Conflict, client.Untrusted:
			return ExitRefused
		case client.NotFound:
			return ExitNotFound
		case client.Timeout:
			return ExitTimeout
		case client.Internal, client.Unavailable:
		}
		return ExitError
	case errors.As(err, &local) && local.Status == http.StatusNotFound:
		return ExitNotFound
	case errors.Is(err, client.ErrNoContext), errors.Is(err, platform.ErrNotFound), errors.Is(err, localcloud.ErrNotUp):
		return ExitNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case errors.Is(err, platform.ErrRefused):
		return ExitRefused
	}
	return ExitError
}

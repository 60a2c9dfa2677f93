package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/redlock"
)

// nodesVariable names the environment variable with the endpoints of the masters.
const nodesVariable = "REDLOCK_NODES"

// maxNodesFile is more than 64 endpoints, which is all that a Locker takes, will ever need.
const maxNodesFile = 64 << 10

// nodeFlags say where the masters are, and what all who share them agree on.
type nodeFlags struct {
	nodes  []string
	file   string
	prefix string
	maxTTL time.Duration
	strict bool
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	// Not a StringSlice: its errors show what they could not read, password and all.
	cmd.Flags().StringArrayVar(&f.nodes, "nodes", nil, "`endpoints` of the masters: redis://, rediss://, unix:// or host:port; separated by\n"+
		"commas, or repeated (default: "+nodesVariable+"). Everyone on this machine sees them, passwords too:\n"+
		"prefer "+nodesVariable+" or --nodes-file")
	cmd.Flags().StringVar(&f.file, "nodes-file", "", "`file` with the endpoints, one per line; # begins a comment")
	cmd.Flags().StringVar(&f.prefix, "key-prefix", "", "`text` in front of the name; the same for all who share the lock")
	cmd.Flags().DurationVar(&f.maxTTL, "max-ttl", time.Minute, "longest TTL of anyone who shares the masters; the same for all of them")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "masters of a new cluster, too, vote only after the longest TTL, or after redlock init\n(QuarantineStrict); the same for all")
}

// endpoints returns the endpoints of the flags, or else of the environment.
func (f *nodeFlags) endpoints(cmd *cobra.Command) (endpoints []string, err error) {
	source := "--nodes"
	switch {
	case cmd.Flags().Changed("nodes") && cmd.Flags().Changed("nodes-file"):
		return nil, usagef("--nodes and --nodes-file: only one of them")
	case cmd.Flags().Changed("nodes"):
		endpoints = splitNodes(f.nodes)
	case cmd.Flags().Changed("nodes-file"):
		source = "--nodes-file"
		if endpoints, err = readNodes(f.file); err != nil {
			return nil, usagef("--nodes-file: %w", err)
		}
	case os.Getenv(nodesVariable) != "":
		source = nodesVariable
		endpoints = splitNodes([]string{os.Getenv(nodesVariable)})
	default:
		return nil, usagef("which masters? Set %s, or give --nodes or --nodes-file", nodesVariable)
	}
	if len(endpoints) == 0 {
		return nil, usagef("%s: no endpoint", source)
	}
	for i, endpoint := range endpoints {
		if endpoint == "" {
			return nil, usagef("%s: endpoint %d of %d is empty", source, i+1, len(endpoints))
		}
	}
	return endpoints, nil
}

// splitNodes takes apart the values of --nodes. A comma in a password is written %2C.
func splitNodes(values []string) []string {
	var nodes []string
	for _, value := range values {
		for node := range strings.SplitSeq(value, ",") {
			nodes = append(nodes, strings.TrimSpace(node))
		}
	}
	return nodes
}

func readNodes(path string) (endpoints []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxNodesFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxNodesFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxNodesFile)
	}
	for line := range strings.Lines(string(text)) {
		// A # within an endpoint belongs to it, and is told to be wrong.
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			endpoints = append(endpoints, splitNodes([]string{line})...)
		}
	}
	return endpoints, nil
}

// open returns a Locker over the masters. What it refuses is the fault of the command line.
func (f *nodeFlags) open(cmd *cobra.Command, opts ...redlock.Option) (*redlock.Locker, error) {
	endpoints, err := f.endpoints(cmd)
	if err != nil {
		return nil, err
	}
	shared := []redlock.Option{redlock.WithKeyPrefix(f.prefix), redlock.WithMaxTTL(f.maxTTL)}
	if f.strict {
		shared = append(shared, redlock.WithQuarantine(redlock.QuarantineStrict))
	}
	locker, err := redlock.New(endpoints, append(shared, opts...)...)
	return locker, invalidUsage(err)
}

// invalidUsage makes a usage error of an argument that the library refuses.
func invalidUsage(err error) error {
	if errors.Is(err, redlock.ErrInvalid) {
		return usagef("%s", strings.TrimPrefix(err.Error(), redlock.ErrInvalid.Error()+": "))
	}
	return err
}

// quorumStatus gives an error the status of a missing quorum, where it is that.
func quorumStatus(err error) error {
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		return statusError{exitNoQuorum, err}
	}
	return invalidUsage(err)
}

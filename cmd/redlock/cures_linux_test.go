package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
)

func init() {
	diskFaults = []fault{
		{
			kind: trouble.LogFails, wrong: func(b *bed) { b.fillDisk() },
			cure: func(b *bed) { b.renew() }, says: "make room on its disk", left: []trouble.Kind{trouble.Fsync},
		},
	}
}

// fillDisk starts a server that logs its commands on a disk that is full.
func (b *bed) fillDisk() {
	dir := b.t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		b.t.Skipf("a small disk takes the right to mount one: %v", err)
	}
	b.t.Cleanup(func() { assert.NoError(b.t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	s := b.one(redistest.WithArgs("--dir", dir, "--appendfsync", "everysec"))
	filler := filepath.Join(dir, "filler")
	require.Error(b.t, os.WriteFile(filler, make([]byte, 2<<20), 0o600), "no space left")
	b.renew = func() { require.NoError(b.t, os.Remove(filler)) }
	for i := range 3 { // the last pages of the log may have room yet
		_, _ = s.Do("SET", fmt.Sprint("big", i), strings.Repeat("x", 8000), "PX", 60_000) //nolint:errcheck // the last ones fail, as they must
	}
}

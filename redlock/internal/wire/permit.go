package wire

import (
	_ "embed" // the scripts
	"fmt"
)

//go:embed scripts/permits.lua
var permitsSource string

//go:embed scripts/permit_take.lua
var permitTakeSource string

//go:embed scripts/permit.lua
var permitSource string

//go:embed scripts/permit_wait.lua
var permitWaitSource string

//go:embed scripts/permit_release.lua
var permitReleaseSource string

//go:embed scripts/permit_inspect.lua
var permitInspectSource string

//go:embed scripts/owner.lua
var ownerSource string

// The sources of the scripts of a semaphore.
var (
	permitTakes    = []string{fenceSource, publishSource, permitsSource, permitTakeSource, permitSource}
	permitWaits    = []string{permitListLife, fenceSource, publishSource, permitsSource, permitTakeSource, permitWaitSource}
	permitReleases = []string{publishSource, permitsSource, permitReleaseSource}
	permitInspects = []string{publishSource, permitsSource, ownerSource, permitInspectSource}

	permitListLife = fmt.Sprintf("local listLife = %d -- milliseconds\n", listLife.Milliseconds())
)

var (
	// In order: behind their release they would leave keys behind.
	permitScript     = inOrder(permitTakes...)
	permitWaitScript = inOrder(permitWaits...)

	// Late: a value is used once.
	permitReleaseScript = late(permitReleases...)

	// Late: it changes nothing.
	permitInspectScript = late(permitInspects...)
)

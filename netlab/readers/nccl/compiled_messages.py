# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Messages that make up a large log, read by compiled code: calls, connections, initialisations, layouts, rings and trees.

Each function reads a message into a row and says whether it is exactly one of the usual forms; every other form is for `messages`. Numbers
have the limits of the patterns there: one beyond them belongs to a torn line.
"""

from __future__ import annotations

from netlab.readers.nccl.compiled import bracket, digits, hash_bytes, hexadecimal, jit, literal, text_number, word

__all__ = ["read_call", "read_edges", "read_init", "read_layout", "read_via"]

#: Columns of calls.
HOST_START, HOST_END, PID, NAME_START, NAME_END, SEQ, COUNT, DTYPE, ROOT, COMM, NRANKS, STREAM, HOST_HASH, NAME_HASH = range(14)
CALL_FIELDS = 14
#: Columns of connections. ``VIA_COMM`` is 0 but for RCCL, which names it.
VIA_CHANNEL, VIA_NUMBER, VIA_SRC, VIA_DST, VIA_SIDE, PATH_START, PATH_END, PATH_HASH, VIA_COMM = range(9)
VIA_FIELDS = 9
#: Columns of initialisations; -1 stands for none. ``INIT_WHAT``: 0 START, 1 COMPLETE, 2 Destroy, 3 Abort.
INIT_WHAT, INIT_COMM, INIT_RANK, INIT_NRANKS, INIT_DEVICE, INIT_NVML, INIT_BUS, INIT_HAS_ID, INIT_ID = range(9)
INIT_FIELDS = 9
#: Columns of layouts.
LAYOUT_COMM, LAYOUT_RANK, LAYOUT_NRANKS, LAYOUT_NODES, LAYOUT_LOCAL = range(5)
LAYOUT_FIELDS = 5
#: Columns of edges: the line's place, pattern (0 ring, 1 tree), basis (1 graph, 2 trees), ...
EDGE_LINE, EDGE_PATTERN, EDGE_BASIS, EDGE_CHANNEL, EDGE_SRC, EDGE_DST = range(6)
EDGE_FIELDS = 6

_MOST = 9_999_999
(
    _OPCOUNT, _SENDBUFF, _RECVBUFF, _COUNT, _DATATYPE, _OP, _ROOT, _COMM, _NRANKS_IS, _STREAM, _TASK, _GLOBALRANK, _CHANNEL, _RING, _COLON,
    _ARROW, _SEND, _RECEIVE, _VIA, _COMM_FIRST, _RANK, _NRANKS, _CUDA, _NVML, _BUS, _ID, _START, _COMPLETE, _DESTROY, _ABORT, _NRANKS_UP,
    _NODES, _LOCAL_RANKS, _LOCAL, _MNNVL, _TREES, _TREE, _CLOSE, _TO,
) = map(text_number, (
    ": opCount ", " sendbuff ", " recvbuff ", " count ", " datatype ", " op ", " root ", " comm 0x", " [nranks=", "] stream ", " task ",
    " globalrank ", "Channel ", "Ring ", " : ", " -> ", " [send]", " [receive]", " via ", "comm 0x", " rank ", " nranks ", " cudaDev ",
    " nvmlDev ", " busId ", " commId 0x", " - Init START", " - Init COMPLETE", " - Destroy COMPLETE", " - Abort COMPLETE", " nRanks ",
    " nNodes ", " localRanks ", " localRank ", " MNNVL ", "Trees ", "Tree ", "] ", "->",
))  # fmt: skip


@jit
def _name_end(buffer, at, end):
    """Where a name of letters, digits and underscores ends."""
    while at < end and (65 <= buffer[at] <= 90 or 97 <= buffer[at] <= 122 or 48 <= buffer[at] <= 57 or buffer[at] == 95):
        at += 1
    return at


@jit
def read_call(buffer, at, end, calls, row):
    """A COLL line."""
    i = _name_end(buffer, at, end)
    if i == at:
        return False
    calls[row, NAME_START], calls[row, NAME_END] = at, i
    calls[row, SEQ], i = digits(buffer, literal(buffer, i, end, _OPCOUNT), end, 16)
    i = word(buffer, literal(buffer, i, end, _SENDBUFF), end)
    i = word(buffer, literal(buffer, i, end, _RECVBUFF), end)
    calls[row, COUNT], i = digits(buffer, literal(buffer, i, end, _COUNT), end, 10)
    calls[row, DTYPE], i = digits(buffer, literal(buffer, i, end, _DATATYPE), end, 10)
    _, i = digits(buffer, literal(buffer, i, end, _OP), end, 10)
    calls[row, ROOT], i = digits(buffer, literal(buffer, i, end, _ROOT), end, 10)
    calls[row, COMM], i = hexadecimal(buffer, literal(buffer, i, end, _COMM), end)
    calls[row, NRANKS], i = digits(buffer, literal(buffer, i, end, _NRANKS_IS), end, 10)
    i = literal(buffer, i, end, _STREAM)
    if i < 0 or min(calls[row, NRANKS], calls[row, COUNT], calls[row, DTYPE], calls[row, COMM]) < 0:
        return False
    if calls[row, NRANKS] > _MOST or calls[row, DTYPE] > 9_999 or abs(calls[row, ROOT]) > 999_999_999:
        return False
    if i + 5 == end and buffer[i] == 40:  # (nil)
        calls[row, STREAM] = -1
        return True
    if i + 2 >= end or buffer[i] != 48 or buffer[i + 1] != 120:
        return False
    calls[row, STREAM], i = digits(buffer, i + 2, end, 16)
    if 0 <= i < end:  # RCCL's suffix
        _, i = digits(buffer, literal(buffer, i, end, _TASK), end, 10)
        _, i = digits(buffer, literal(buffer, i, end, _GLOBALRANK), end, 10)
    return i == end


@jit
def read_via(buffer, at, end, vias, row):
    """A connection. Its transport is judged by the caller."""
    i = literal(buffer, at, end, _CHANNEL)
    if i < 0:
        i = literal(buffer, at, end, _RING)
    vias[row, VIA_CHANNEL], i = digits(buffer, i, end, 10)
    vias[row, VIA_NUMBER] = -1
    if 0 <= i < end and buffer[i] == 47:
        vias[row, VIA_NUMBER], i = digits(buffer, i + 1, end, 10)
        if vias[row, VIA_NUMBER] < 0:
            return False
    vias[row, VIA_SRC], i = digits(buffer, literal(buffer, i, end, _COLON), end, 10)
    vias[row, VIA_DST], i = digits(buffer, literal(buffer, bracket(buffer, i, end), end, _ARROW), end, 10)
    i = bracket(buffer, i, end)
    vias[row, VIA_SIDE] = 0
    for side in range(1, 3):
        behind = literal(buffer, i, end, _ARROW + side)
        if behind >= 0:
            vias[row, VIA_SIDE] = side
            i = behind
    i = literal(buffer, i, end, _VIA)
    if i < 0 or i >= end or min(vias[row, VIA_SRC], vias[row, VIA_DST], vias[row, VIA_CHANNEL]) < 0 or vias[row, VIA_NUMBER] < -1:
        return False
    if max(vias[row, VIA_SRC], vias[row, VIA_DST], vias[row, VIA_CHANNEL]) > _MOST or vias[row, VIA_NUMBER] > 999:
        return False
    vias[row, PATH_START], vias[row, PATH_END], vias[row, VIA_COMM] = i, end, 0
    stop = word(buffer, i, end)
    comm = literal(buffer, stop, end, _COMM)
    if comm >= 0:  # RCCL: comm 0x... nRanks N
        vias[row, VIA_COMM], j = hexadecimal(buffer, comm, end)
        size, j = digits(buffer, literal(buffer, j, end, _NRANKS_UP), end, 10)
        if j != end or size < 0 or size > _MOST or vias[row, VIA_COMM] <= 0:
            return False
        vias[row, PATH_END] = stop
    vias[row, PATH_HASH] = hash_bytes(buffer, i, vias[row, PATH_END])
    return True


@jit
def read_init(buffer, at, end, inits, row):
    """The beginning or the end of a communicator that has no parent."""
    i = at
    if i + 4 < end and buffer[i] == 110 and buffer[i + 1] == 99:  # nccl...
        i = _name_end(buffer, i, end)
        i = i + 1 if i < end and buffer[i] == 32 else -1
    inits[row, INIT_COMM], i = hexadecimal(buffer, literal(buffer, i, end, _COMM_FIRST), end)
    inits[row, INIT_RANK], i = digits(buffer, literal(buffer, i, end, _RANK), end, 10)
    inits[row, INIT_NRANKS], i = digits(buffer, literal(buffer, i, end, _NRANKS), end, 10)
    inits[row, INIT_DEVICE], i = digits(buffer, literal(buffer, i, end, _CUDA), end, 10)
    if i < 0 or min(inits[row, INIT_COMM], inits[row, INIT_RANK], inits[row, INIT_NRANKS], inits[row, INIT_DEVICE]) < 0:
        return False
    if max(inits[row, INIT_RANK], inits[row, INIT_NRANKS], inits[row, INIT_DEVICE]) > _MOST:
        return False
    inits[row, INIT_NVML], inits[row, INIT_BUS], inits[row, INIT_HAS_ID], inits[row, INIT_ID] = -1, -1, 0, 0
    j = literal(buffer, i, end, _NVML)
    if j >= 0:
        inits[row, INIT_NVML], i = digits(buffer, j, end, 10)
        if i < 0 or inits[row, INIT_NVML] < 0 or inits[row, INIT_NVML] > _MOST:
            return False
    j = literal(buffer, i, end, _BUS)
    if j >= 0:
        inits[row, INIT_BUS], i = hexadecimal(buffer, j, end)
        if i < 0 or inits[row, INIT_BUS] < 0:
            return False
    j = literal(buffer, i, end, _ID)
    if j >= 0:
        inits[row, INIT_HAS_ID] = 1
        inits[row, INIT_ID], i = hexadecimal(buffer, j, end)
        if i < 0:
            return False
    for what in range(4):
        if literal(buffer, i, end, _START + what) == end:
            inits[row, INIT_WHAT] = what
            return True
    return False


@jit
def read_layout(buffer, at, end, layouts, row):
    """``comm P rank R nRanks N nNodes M localRanks L localRank l MNNVL 0``."""
    layouts[row, LAYOUT_COMM], i = hexadecimal(buffer, literal(buffer, at, end, _COMM_FIRST), end)
    layouts[row, LAYOUT_RANK], i = digits(buffer, literal(buffer, i, end, _RANK), end, 10)
    layouts[row, LAYOUT_NRANKS], i = digits(buffer, literal(buffer, i, end, _NRANKS_UP), end, 10)
    layouts[row, LAYOUT_NODES], i = digits(buffer, literal(buffer, i, end, _NODES), end, 10)
    _, i = digits(buffer, literal(buffer, i, end, _LOCAL_RANKS), end, 10)
    layouts[row, LAYOUT_LOCAL], i = digits(buffer, literal(buffer, i, end, _LOCAL), end, 10)
    _, i = digits(buffer, literal(buffer, i, end, _MNNVL), end, 10)
    if i != end:
        return False
    return layouts[row].min() >= 0 and layouts[row, 1:].max() <= _MOST


@jit
def _edge(edges, row, pattern, basis, channel, src, dst):
    edges[row, EDGE_PATTERN], edges[row, EDGE_BASIS], edges[row, EDGE_CHANNEL] = pattern, basis, channel
    edges[row, EDGE_SRC], edges[row, EDGE_DST] = src, dst


@jit
def _children(buffer, at, end, edges, first):
    """Ranks divided by ``/``: each a child that is there. The position behind them and how many there are; -1 if they are torn."""
    count, i = 0, at
    while True:
        child, i = digits(buffer, i, end, 10)
        if i < 0 or child > _MOST:
            return -1, 0
        if child >= 0:
            if first + count >= len(edges):
                return -1, 0
            edges[first + count, EDGE_DST] = child
            count += 1
        if i >= end or buffer[i] != 47:
            return i, count
        i += 1


@jit
def read_edges(buffer, at, end, edges, first):
    """A Ring, Tree or Trees line into rows from ``first`` on; how many there are, or -1 if it is none of the usual form."""
    if at < end and buffer[at] == 82:
        channel, i = digits(buffer, literal(buffer, at, end, _RING), end, 10)
        before, i = digits(buffer, literal(buffer, i, end, _COLON), end, 10)
        me, i = digits(buffer, literal(buffer, i, end, _ARROW), end, 10)
        after, i = digits(buffer, literal(buffer, i, end, _ARROW), end, 10)
        if i != end or min(channel, me) < 0 or max(channel, before, me, after) > _MOST or first + 2 > len(edges):
            return -1
        count = 0
        if before >= 0:
            _edge(edges, first, 0, 1, channel, before, me)
            count = 1
        if after >= 0:
            _edge(edges, first + count, 0, 1, channel, me, after)
            count += 1
        return count
    i = literal(buffer, at, end, _TREES)
    if i < 0:
        channel, i = digits(buffer, literal(buffer, at, end, _TREE), end, 10)
        up, i = digits(buffer, literal(buffer, i, end, _COLON), end, 10)
        me, i = digits(buffer, literal(buffer, i, end, _ARROW), end, 10)
        i, count = _children(buffer, literal(buffer, i, end, _ARROW), end, edges, first)
        if i != end or min(channel, me) < 0 or max(channel, up, me) > _MOST:
            return -1
        return _tree(edges, first, count, 1, channel, up, me)
    found = 0
    while i < end:
        if buffer[i] != 91:
            return -1
        channel, i = digits(buffer, i + 1, end, 10)
        i, count = _children(buffer, literal(buffer, i, end, _CLOSE), end, edges, first + found)
        me, i = digits(buffer, literal(buffer, i, end, _TO), end, 10)
        up, i = digits(buffer, literal(buffer, i, end, _TO), end, 10)
        if i < 0 or min(channel, me) < 0 or max(channel, up, me) > _MOST:
            return -1
        added = _tree(edges, first + found, count, 2, channel, up, me)
        if added < 0:
            return -1
        found += added
        if i < end:
            if buffer[i] != 32:
                return -1
            i += 1
    return found if found else -1


@jit
def _tree(edges, first, count, basis, channel, up, me):
    """The rows of one place in a tree, whose children are in already; how many there are, or -1 if there is no room."""
    for k in range(count):
        _edge(edges, first + k, 1, basis, channel, me, edges[first + k, EDGE_DST])
    if up < 0:
        return count
    if first + count >= len(edges):
        return -1
    _edge(edges, first + count, 1, basis, channel, up, me)
    return count + 1

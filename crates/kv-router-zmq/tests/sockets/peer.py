"""The other side of the interop test: libzmq through pyzmq, used as vLLM and SGLang use it.

    peer.py publish FRAMES TOPIC FILE...   a publisher with a replay socket; FRAMES is 3 or 4, those of a replay
    peer.py subscribe LIVE REPLAY COUNT    a subscriber that asks for a replay, then listens to COUNT live batches
"""

import sys

import zmq

END = b"\xff" * 8
PATIENCE_MS = 60_000


def publish(frames, topic, files):
    context = zmq.Context()
    live = context.socket(zmq.PUB)
    live.bind("tcp://127.0.0.1:*")
    replay = context.socket(zmq.ROUTER)
    replay.bind("tcp://127.0.0.1:*")
    ends = [socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0") for socket in (live, replay)]
    print(*ends, flush=True)

    buffer = []
    waiting = [open(file, "rb").read() for file in files]
    poller = zmq.Poller()
    poller.register(replay, zmq.POLLIN)
    poller.register(sys.stdin, zmq.POLLIN)
    while True:
        ready = dict(poller.poll(PATIENCE_MS))
        if not ready:
            sys.exit("nobody asks for anything")
        if sys.stdin.fileno() in ready:
            word = sys.stdin.readline()
            if not word:
                return
            # So many batches go out.
            for _ in range(int(word)):
                payload = waiting.pop(0)
                seq = len(buffer).to_bytes(8, "big")
                live.send_multipart((topic, seq, payload))
                buffer.append((seq, payload))
        if replay in ready:
            peer, delimiter, start = replay.recv_multipart()
            assert delimiter == b"", "no delimiter"
            start = int.from_bytes(start, "big")
            label = (topic,) if frames == 4 else ()
            for seq, payload in buffer:
                if int.from_bytes(seq, "big") >= start:
                    replay.send_multipart((peer, b"", *label, seq, payload))
            replay.send_multipart((peer, b"", *label, END, b""))


def subscribe(live_endpoint, replay_endpoint, count):
    context = zmq.Context()
    live = context.socket(zmq.SUB)
    live.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    live.setsockopt(zmq.SUBSCRIBE, b"kv@")
    live.connect(live_endpoint)
    replay = context.socket(zmq.DEALER)
    replay.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    replay.connect(replay_endpoint)
    replay.send_multipart((b"", (0).to_bytes(8, "big")))
    while True:
        frames = replay.recv_multipart()
        print("replay", *(frame.hex() or "-" for frame in frames), flush=True)
        if frames[-2] == END:
            break
    for _ in range(count):
        print("live", *(frame.hex() or "-" for frame in live.recv_multipart()), flush=True)


if sys.argv[1] == "publish":
    publish(int(sys.argv[2]), sys.argv[3].encode(), sys.argv[4:])
else:
    subscribe(sys.argv[2], sys.argv[3], int(sys.argv[4]))

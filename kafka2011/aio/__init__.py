"""Producers and members of groups for programs that run in an asyncio event loop."""

from kafka2011.aio.consumer import AsyncioConsumer, AsyncioStream
from kafka2011.aio.producer import AsyncioProducer

__all__ = ["AsyncioConsumer", "AsyncioProducer", "AsyncioStream"]
